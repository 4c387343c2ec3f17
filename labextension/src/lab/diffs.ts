/** Draws the edits that the agent proposes and makes into the cells of every open notebook. */

import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';

import type { IProposal } from '../edits';
import { CellEdits } from './celledits';
import type { CurrentNotebook } from './current';
import { EditBar } from './editbar';
import type { NotebookLink } from './link';
import { Proposal } from './proposal';
import { StandingEdit } from './standing';

type Cell = Notebook['widgets'][number];

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
        for (const shown of this._open) {
          shown.accept();
        }
      },
      rejectAll: () => {
        for (const shown of this._open) {
          shown.reject('');
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
    const hadFocus = this._open.find(shown => shown.hasFocus) ?? null;
    this._showProposals();
    this._showStanding();
    this._touch();
    if (hadFocus?.isDisposed) {
      this._refocus();
    }
  }

  private _showProposals(): void {
    const { proposals } = this._edits;
    const wanted = new Set(proposals.map(({ toolUseId }) => toolUseId));
    for (const [toolUseId, shown] of this._proposals) {
      if (!wanted.has(toolUseId) || shown.cell.isDisposed || !this._isHere(shown.cell)) {
        shown.dispose();
        this._proposals.delete(toolUseId);
      }
    }
    for (const proposal of proposals) {
      this._showProposal(proposal);
    }
  }

  private _showProposal(proposal: IProposal): void {
    const { toolUseId, cellId } = proposal;
    const cell = this._cell(cellId);
    if (!cell) {
      return;
    }
    let shown = this._proposals.get(toolUseId);
    if (!shown) {
      shown = new Proposal(cell, proposal, {
        decide: (its, decision) => {
          this._edits.decide(its, decision);
        },
        step: (from, by) => {
          this._step(from.toolUseId, by);
        },
        touched: () => {
          this._touch();
        }
      });
      this._proposals.set(toolUseId, shown);
    }
    const { _edits: edits } = this;
    shown.update(proposal, edits.decisionOf(proposal), edits.faultOf(proposal));
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

  /** Return the cell's widget, null if there is none; one that is not drawn yet comes later. */
  private _cell(cellId: string): Cell | null {
    const cell = this._panel.content.widgets.find(({ model }) => model.id === cellId) ?? null;
    if (cell && !cell.inputArea) {
      void cell.ready.then(() => {
        this._update();
      });
      return null;
    }
    return cell;
  }

  private _isHere(cell: Cell): boolean {
    return !cell.isDisposed && this._panel.content.widgets.includes(cell);
  }

  /** What can be read, and what may be answered, has changed. */
  private _touch(): void {
    const open = this._open;
    const [first] = open;
    if (first?.isFresh && this._panel.isVisible && first.proposal.question) {
      this._edits.show(first.proposal);
    }
    const focused = open.find(shown => shown.hasFocus) ?? open.find(this._isAt) ?? first;
    this._at = focused?.proposal.toolUseId ?? null;
    this._bar.state = {
      count: open.length,
      at: focused ? open.indexOf(focused) + 1 : 0,
      mayAccept: open.every(shown => shown.isReady && shown.isFresh),
      mayReject: open.every(shown => shown.isReady)
    };
  }

  /** Those that are drawn and not answered, from top to bottom. */
  private get _open(): readonly Proposal[] {
    const { widgets } = this._panel.content;
    return [...this._proposals.values()]
      .filter(shown => !shown.isDisposed && this._edits.decisionOf(shown.proposal) === null)
      .sort((one, other) => widgets.indexOf(one.cell) - widgets.indexOf(other.cell));
  }

  private readonly _isAt = (shown: Proposal): boolean => shown.proposal.toolUseId === this._at;

  /** Go to the next or the previous one, round the end. */
  private _step(from: string | null, by: 1 | -1): void {
    const open = this._open;
    const at = open.findIndex(shown => shown.proposal.toolUseId === from);
    const next = open[(at + by + open.length) % open.length];
    if (next) {
      this._at = next.proposal.toolUseId;
      void this._panel.content.scrollToCell(next.cell).then(() => {
        next.focus();
        this._touch();
      });
    }
  }

  /** What had the focus is gone: the next one has it, else the notebook. */
  private _refocus(): void {
    const [next] = this._open;
    if (next) {
      next.focus();
    } else {
      this._panel.content.activate();
    }
  }

  private readonly _panel: NotebookPanel;
  private readonly _edits: CellEdits;
  private readonly _tracker: INotebookTracker;
  private readonly _bar: EditBar;
  private readonly _proposals = new Map<string, Proposal>();
  private readonly _standing = new Map<string, StandingEdit>();
  /** The proposal that the bar is at. */
  private _at: string | null = null;
  private _isDisposed = false;
}
