/** The plugin: links the notebooks to their kernels; the panel, the gauge and the commands. */

import { ILayoutRestorer } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { PageConfig } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { addCommands } from './lab/commands';
import { CurrentNotebook } from './lab/current';
import { followEdits } from './lab/diffs';
import { GaugeItem } from './lab/gauge';
import { COMMANDS, PANEL, PLUGIN } from './lab/names';
import { serveOutputs } from './lab/outputs';
import { AgentPanel } from './lab/panel';
import { followQuestions } from './lab/questions';
import { followSettings } from './lab/settings';

/** Where the gauge stands among the status bar's items on the right. */
const RANK = 900;
/** Where the panel's tab stands in the right side bar. */
const PANEL_RANK = 300;

/** The page's option by which `jupyter ctx lab` asks for the panel. */
const OPENS_PANEL = 'jupyterCtxPanel';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description:
    "The agent's panel, and how full its context window is; lets the agent edit the notebook.",
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  optional: [
    IStatusBar,
    ISettingRegistry,
    IEditorLanguageRegistry,
    ICommandPalette,
    ILayoutRestorer
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    statusBar: IStatusBar | null,
    registry: ISettingRegistry | null,
    languages: IEditorLanguageRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const { shell, commands } = app;
    const notebooks = new CurrentNotebook(tracker, shell);
    followQuestions();
    serveOutputs(tracker);
    followEdits(tracker, notebooks);
    const openSettings = {
      label: 'Settings',
      run: () => {
        void commands.execute(COMMANDS.settings);
      }
    };
    const panel = new AgentPanel({
      shell,
      notebooks,
      rendermime,
      languages,
      menu: commands.hasCommand('settingeditor:open') ? [openSettings] : []
    });
    shell.add(panel, 'right', { rank: PANEL_RANK, type: 'Agent' });
    restorer?.add(panel, PANEL);
    if (PageConfig.getOption(OPENS_PANEL) === 'true') {
      void app.restored.then(() => {
        shell.activateById(PANEL);
      });
    }
    addCommands(app, panel, tracker, palette);
    const gauge = statusBar ? addGauge(statusBar, notebooks) : null;
    if (registry) {
      void followSettings(registry, notebooks, settings => {
        panel.settings = settings;
        if (gauge) {
          gauge.display = settings.gauge;
        }
      });
    }
  }
};

function addGauge(statusBar: IStatusBar, notebooks: CurrentNotebook): GaugeItem {
  const gauge = new GaugeItem(notebooks);
  statusBar.registerStatusItem(PLUGIN, {
    item: gauge,
    align: 'right',
    rank: RANK,
    priority: 1,
    isActive: () => gauge.isActive,
    activeStateChanged: gauge.activeChanged
  });
  return gauge;
}

export default plugin;
