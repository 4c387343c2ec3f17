/** Draws the edits that the agent proposes and makes into the cells of every open notebook. */

import { NotebookActions } from '@jupyterlab/notebook';
import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';

import { inOrder, isStill } from '../edits';
import type { IProposal, ISpot } from '../edits';
import { CellEdits } from './celledits';
import type { CurrentNotebook } from './current';
import { EditBar } from './editbar';
import { formOf } from './forms';
import type { NotebookLink } from './link';
import { Proposal } from './proposal';
import type { IAround } from './proposal';
import { StandingEdit } from './standing';

type Cell = Notebook['widgets'][number];

/** A change, the cell that it is drawn in, and what is drawn: null while that cell is not. */
interface ISpotted {
  readonly proposal: IProposal;
  readonly cell: Cell;
  readonly at: ISpot['at'];
  readonly shown: Proposal | null;
}

/** Follow every notebook; each shows what its own kernel says. */
export function followEdits(tracker: INotebookTracker, notebooks: CurrentNotebook): void {
  const all = new Map<NotebookLink, CellEdits>();
  notebooks.edited.connect((_, { link, edited }) => {
    all.get(link)?.take(edited);
  });
  const add = (panel: NotebookPanel): void => {
    const link = notebooks.linkOf(panel);
    if (!link) {
      return;
    }
    const edits = all.get(link) ?? new CellEdits(link, id => sourceIn(panel, id));
    all.set(link, edits);
    const diffs = new NotebookDiffs(panel, edits, tracker);
    panel.disposed.connect(() => {
      diffs.dispose();
      if (link.isDisposed) {
        edits.dispose();
        all.delete(link);
      }
    });
  };
  tracker.forEach(add);
  tracker.widgetAdded.connect((_, panel) => {
    add(panel);
  });
}

function sourceIn({ context }: NotebookPanel, id: string): string | null {
  const cells = context.isDisposed ? [] : context.model.sharedModel.cells;
  return cells.find(cell => cell.id === id)?.getSource() ?? null;
}

/** Whether a cell takes no place now: it is in a collapsed section, or windowed away. */
function isAway({ node }: Cell): boolean {
  return node.getClientRects().length === 0;
}

/** Whether a person has to be told of a change, since it cannot be seen where they are. */
function isUnseen({ cell, shown }: ISpotted): boolean {
  return !shown || shown.isOutOfSight || isAway(cell);
}

/** One view of a notebook. */
class NotebookDiffs implements IDisposable {
  constructor(panel: NotebookPanel, edits: CellEdits, tracker: INotebookTracker) {
    this._panel = panel;
    this._edits = edits;
    this._tracker = tracker;
    this._bar = new EditBar({
      step: by => {
        this._step(this._at, by);
      },
      acceptAll: () => {
        for (const { shown } of this._open) {
          shown?.accept();
        }
      },
      rejectAll: () => {
        for (const { proposal } of this._open) {
          this._edits.decide(proposal, { isAccepted: false, reason: '', base: '' });
        }
      }
    });
    panel.contentHeader.addWidget(this._bar);
    edits.changed.connect(this._update, this);
    tracker.currentChanged.connect(this._update, this);
    panel.content.modelContentChanged.connect(this._onContent, this);
    this._update();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._edits.changed.disconnect(this._update, this);
    this._tracker.currentChanged.disconnect(this._update, this);
    this._panel.content.modelContentChanged.disconnect(this._onContent, this);
    for (const shown of [...this._proposals.values(), ...this._standing.values()]) {
      shown.dispose();
    }
    this._bar.dispose();
  }

  /** A cell was moved, deleted or put back: what is drawn in it goes with it. */
  private _onContent(): void {
    if (this._edits.proposals.length + this._standing.size + this._proposals.size > 0) {
      this._update();
    }
  }

  private _update(): void {
    if (this._isDisposed || this._panel.content.isDisposed) {
      return;
    }
    const hadFocus = [...this._proposals.values()].find(shown => shown.hasFocus);
    this._showProposals();
    this._showStanding();
    this._touch();
    if (hadFocus?.isDisposed) {
      this._refocus();
    }
  }

  private _showProposals(): void {
    const { widgets } = this._panel.content;
    const ids = widgets.map(({ model }) => model.id);
    const wanted = inOrder(this._edits.proposals, ids).flatMap(({ proposal, spot }) => {
      const cell = widgets[ids.indexOf(spot.cellId)];
      return cell ? [{ proposal, cell, at: spot.at }] : [];
    });
    for (const [toolUseId, shown] of this._proposals) {
      const spot = wanted.find(({ proposal }) => proposal.toolUseId === toolUseId);
      const isHere = spot?.cell === shown.cell && isStill(shown.proposal, spot.proposal);
      if (!isHere || shown.form.watched.some(cell => cell.isDisposed)) {
        shown.dispose();
        this._proposals.delete(toolUseId);
      }
    }
    this._spots = wanted.map(spot => ({ ...spot, shown: this._show(spot) }));
    this._arrange('top');
    this._arrange('end');
  }

  private _show({ proposal, cell, at }: Omit<ISpotted, 'shown'>): Proposal | null {
    const { toolUseId } = proposal;
    const { _edits: edits, _panel: panel } = this;
    let shown = this._proposals.get(toolUseId) ?? null;
    if (!shown && this._isDrawn(cell)) {
      const go = (): void => {
        this._go(toolUseId);
      };
      const form = formOf(proposal, at, cell, panel.content, go);
      shown = form && new Proposal(form, proposal, this._around);
    }
    if (shown) {
      this._proposals.set(toolUseId, shown);
      shown.update(proposal, edits.decisionOf(proposal), edits.faultOf(proposal));
    }
    return shown;
  }

  /** What stands at one end of a cell stands there in order. */
  private _arrange(at: 'top' | 'end'): void {
    const groups = new Map<Cell, HTMLElement[]>();
    for (const { cell, shown, at: its } of this._spots) {
      if (shown && its === at) {
        groups.set(cell, [...(groups.get(cell) ?? []), shown.node]);
      }
    }
    for (const [cell, nodes] of groups) {
      const stand = [...cell.node.children].filter(node => nodes.includes(node as HTMLElement));
      if (nodes.some((node, index) => stand[index] !== node)) {
        const focused = document.activeElement;
        cell.node[at === 'top' ? 'prepend' : 'append'](...nodes);
        if (focused instanceof HTMLElement && cell.node.contains(focused)) {
          focused.focus({ preventScroll: true });
        }
      }
    }
  }

  private _showStanding(): void {
    const { standing } = this._edits;
    for (const [cellId, shown] of this._standing) {
      if (standing.get(cellId) !== shown.edit || !this._isHere(shown.cell)) {
        shown.dispose();
        this._standing.delete(cellId);
      }
    }
    for (const [cellId, edit] of standing) {
      const cell = this._standing.has(cellId) ? null : this._cell(cellId);
      if (cell) {
        const acts = {
          undo: () => this._edits.undo(edit),
          release: () => {
            this._edits.release(cellId);
          }
        };
        this._standing.set(cellId, new StandingEdit(cell, edit, acts));
      }
    }
  }

  /** Return the cell's widget, null if there is none, or it is not drawn yet. */
  private _cell(cellId: string): Cell | null {
    const cell = this._panel.content.widgets.find(({ model }) => model.id === cellId) ?? null;
    return cell && this._isDrawn(cell) ? cell : null;
  }

  /** Whether a cell's inside is there; once it is, this looks again. */
  private _isDrawn(cell: Cell): boolean {
    if (cell.inputArea) {
      return true;
    }
    if (!this._awaited.has(cell)) {
      this._awaited.add(cell);
      void cell.ready.then(() => {
        this._awaited.delete(cell);
        this._update();
      });
    }
    return false;
  }

  private _isHere(cell: Cell): boolean {
    return !cell.isDisposed && this._panel.content.widgets.includes(cell);
  }

  /** What can be read, and what may be answered, has changed. */
  private _touch(): void {
    if (this._isDisposed) {
      return;
    }
    const open = this._open;
    const asked = open.find(({ proposal }) => proposal.question);
    if (asked && asked.shown?.isFresh !== false && this._panel.isVisible) {
      this._edits.show(asked.proposal);
    }
    const isAt = ({ proposal }: ISpotted): boolean => proposal.toolUseId === this._at;
    const focused = open.find(({ shown }) => shown?.hasFocus) ?? open.find(isAt) ?? open[0];
    this._at = focused?.proposal.toolUseId ?? null;
    this._bar.state = {
      ids: open.map(({ proposal }) => proposal.toolUseId),
      at: focused ? open.indexOf(focused) + 1 : 0,
      isNeeded: open.length > 1 || open.some(isUnseen),
      mayAccept: open.every(({ shown }) => shown?.isRead && shown.isFresh)
    };
  }

  /** Those that are not answered, from top to bottom. */
  private get _open(): readonly ISpotted[] {
    return this._spots.filter(({ proposal }) => this._edits.decisionOf(proposal) === null);
  }

  /** Go to the next or the previous one, round the end. */
  private _step(from: string | null, by: 1 | -1): void {
    const open = this._open;
    const at = open.findIndex(({ proposal }) => proposal.toolUseId === from);
    const next = open[(at + by + open.length) % open.length];
    if (next) {
      this._go(next.proposal.toolUseId);
    }
  }

  /** Show one, wherever it is: in a collapsed section, or where nothing is drawn yet. */
  private _go(toolUseId: string): void {
    const { content: notebook } = this._panel;
    const cell = this._spots.find(({ proposal }) => proposal.toolUseId === toolUseId)?.cell;
    if (!cell) {
      return;
    }
    this._at = toolUseId;
    if (cell.isHidden) {
      NotebookActions.expandParent(cell, notebook);
    }
    void notebook.scrollToCell(cell).then(async () => {
      await cell.ready;
      this._update();
      this._proposals.get(toolUseId)?.focus();
      this._touch();
    });
  }

  /** What had the focus is gone: the next one that is drawn has it, else the notebook. */
  private _refocus(): void {
    const next = this._open.find(({ shown, cell }) => shown && !isAway(cell))?.shown;
    if (next) {
      next.focus();
    } else {
      this._panel.content.activate();
    }
  }

  private readonly _around: IAround = {
    decide: (its, decision) => {
      this._edits.decide(its, decision);
    },
    sourceOf: id => sourceIn(this._panel, id),
    step: (from, by) => {
      this._step(from.toolUseId, by);
    },
    touched: () => {
      this._touch();
    }
  };
  private readonly _panel: NotebookPanel;
  private readonly _edits: CellEdits;
  private readonly _tracker: INotebookTracker;
  private readonly _bar: EditBar;
  private readonly _proposals = new Map<string, Proposal>();
  private readonly _awaited = new Set<Cell>();
  private _spots: readonly ISpotted[] = [];
  private readonly _standing = new Map<string, StandingEdit>();
  /** The proposal that the bar is at. */
  private _at: string | null = null;
  private _isDisposed = false;
}
