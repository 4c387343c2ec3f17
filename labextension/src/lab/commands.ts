/** The commands of the palette, the shortcuts and the menus of cells. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { mentionCell } from './dropped';
import { agentIcon } from './icon';
import { COMMANDS, PLUGIN } from './names';
import type { AgentPanel } from './panel';

const CATEGORY = 'Agent';
const PALETTE = [
  COMMANDS.ask,
  COMMANDS.show,
  COMMANDS.sessions,
  COMMANDS.stop,
  COMMANDS.compact,
  COMMANDS.undoEdit,
  COMMANDS.askAboutCell,
  COMMANDS.fixError,
  COMMANDS.settings
] as const;

/** Add what a person can start from anywhere. */
export function addCommands(
  app: JupyterFrontEnd,
  panel: AgentPanel,
  tracker: INotebookTracker,
  palette: ICommandPalette | null
): void {
  const { commands } = app;
  commands.addCommand(COMMANDS.ask, {
    label: 'Ask the Agent',
    caption: 'Go to the prompt of the agent; from there, back to the notebook',
    execute: () => {
      toggleFocus(app, panel, tracker);
    }
  });
  commands.addCommand(COMMANDS.show, {
    label: 'Show the Agent',
    icon: agentIcon,
    execute: () => {
      app.shell.activateById(panel.id);
    }
  });
  commands.addCommand(COMMANDS.sessions, {
    label: 'Show Sessions',
    caption: 'List the sessions of the agent, of all notebooks',
    execute: () => {
      app.shell.activateById(panel.id);
      panel.showSessions();
    }
  });
  commands.addCommand(COMMANDS.stop, {
    label: 'Stop the Agent',
    isEnabled: () => panel.isRunning,
    execute: () => {
      panel.stop();
    }
  });
  commands.addCommand(COMMANDS.compact, {
    label: 'Compact the Conversation',
    isEnabled: () => panel.isOpen && !panel.isRunning,
    execute: () => panel.call('compact', { focus: '' })
  });
  commands.addCommand(COMMANDS.undoEdit, {
    label: "Undo the Agent's Last Edit",
    isEnabled: () => panel.isOpen,
    execute: () => panel.call('undo_edit', { tool_use_id: null })
  });
  commands.addCommand(COMMANDS.settings, {
    label: 'Settings of the Agent',
    isVisible: () => commands.hasCommand('settingeditor:open'),
    execute: () => commands.execute('settingeditor:open', { query: PLUGIN.split(':')[0] ?? '' })
  });
  addCellCommands(app, panel, tracker);
  for (const command of PALETTE) {
    palette?.addItem({ command, category: CATEGORY });
  }
}

/** What the menu of a cell offers, and of the active cell the palette. */
function addCellCommands(app: JupyterFrontEnd, panel: AgentPanel, tracker: INotebookTracker): void {
  const cellOf = (args: ReadonlyPartialJSONObject): Cell | null =>
    args['clicked'] === true ? clickedCell(app, tracker) : tracker.activeCell;
  app.commands.addCommand(COMMANDS.askAboutCell, {
    label: 'Ask the Agent About This Cell',
    isEnabled: args => cellOf(args) !== null,
    execute: args => {
      const id = cellOf(args)?.model.id;
      if (id !== undefined) {
        app.shell.activateById(panel.id);
        panel.insert(mentionCell(id));
      }
    }
  });
  app.commands.addCommand(COMMANDS.fixError, {
    label: 'Fix This Error With the Agent',
    isVisible: args => hasFailed(cellOf(args)),
    isEnabled: args => hasFailed(cellOf(args)),
    execute: args => {
      const cell = cellOf(args);
      if (cell && hasFailed(cell)) {
        app.shell.activateById(panel.id);
        panel.insert(`Fix @error in ${mentionCell(cell.model.id)}`);
      }
    }
  });
}

/** Return the cell whose menu was opened; a click into an editor does not make it the active one. */
function clickedCell(app: JupyterFrontEnd, tracker: INotebookTracker): Cell | null {
  const node = app.contextMenuHitTest(each => each.classList.contains('jp-Cell'));
  return tracker.currentWidget?.content.widgets.find(cell => cell.node === node) ?? null;
}

/** Return whether an error is among a cell's outputs. */
function hasFailed(cell: Cell | null): boolean {
  const model = cell?.model;
  if (model?.type !== 'code') {
    return false;
  }
  const outputs = model.sharedModel.toJSON()['outputs'] as
    readonly { readonly output_type?: string }[] | undefined;
  return outputs?.some(output => output.output_type === 'error') === true;
}

function toggleFocus(app: JupyterFrontEnd, panel: AgentPanel, tracker: INotebookTracker): void {
  if (!panel.hasFocus || !tracker.currentWidget) {
    app.shell.activateById(panel.id);
    panel.focusPrompt();
    return;
  }
  app.shell.activateById(tracker.currentWidget.id);
  tracker.currentWidget.content.activate();
}
