/** The line below a cell that the agent edited, until the person takes the cell over or runs it. */

import type { EditorView } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';

import type { IStanding } from './celledits';
import { element, onPerson } from './dom';
import { drawDiff } from './mergeview';

/** What the line asks of those around it. `undo` rejects with an error that says why not. */
export interface IStandingActs {
  undo(edit: IStanding): Promise<void>;
  release(edit: IStanding): void;
}

export class StandingEdit implements IDisposable {
  constructor(
    readonly cell: Cell,
    readonly edit: IStanding,
    acts: IStandingActs
  ) {
    this._acts = acts;
    this._model = cell.model;
    const { before, turn } = edit;
    const what = before === null ? 'Added' : 'Edited';
    const line = element('div', 'jctx-who', `${what} by the agent, turn ${turn}`);
    if (before !== null) {
      line.append(' · ', this._change);
      this._change.setAttribute('aria-expanded', 'false');
      onPerson(this._change, () => {
        this._toggle(before);
      });
    }
    const undo = element('button', 'link', 'Undo');
    onPerson(undo, () => {
      void this._undo();
    });
    line.append(' · ', undo, this._fault);
    this._fault.setAttribute('role', 'alert');
    this.node.append(line, this._lines);
    this.node.dataset['lmSuppressShortcuts'] = 'true';
    this.node.addEventListener('keydown', event => {
      event.stopPropagation(); // the notebook takes the focus at any key
    });
    cell.node.querySelector(':scope > .jp-Cell-inputWrapper')?.after(this.node);
    this._model.sharedModel.changed.connect(this._look, this);
    this._model.stateChanged.connect(this._look, this);
  }

  readonly node = element('div', 'jctx in-cell jctx-standing jctx-below');

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._model.sharedModel.changed.disconnect(this._look, this);
      this._model.stateChanged.disconnect(this._look, this);
      this._view?.destroy();
      this.node.remove();
    }
  }

  private _look(): void {
    const shared = this._model.sharedModel;
    const { executionState } = shared as { executionState?: string };
    if (shared.getSource() !== this.edit.after || executionState === 'running') {
      this._acts.release(this.edit);
    }
  }

  private _toggle(before: string): void {
    if (this._view) {
      this._view.destroy();
      this._view = null;
    } else {
      this._view = drawDiff(this._lines, this.cell, before, this.edit.after);
    }
    const isOpen = this._view !== null;
    this._lines.classList.toggle('jctx-diff', isOpen);
    this._change.textContent = isOpen ? 'Hide change' : 'Show change';
    this._change.setAttribute('aria-expanded', String(isOpen));
  }

  private async _undo(): Promise<void> {
    this._fault.textContent = '';
    try {
      await this._acts.undo(this.edit);
    } catch (error) {
      this._fault.textContent = ` ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  private readonly _acts: IStandingActs;
  /** Kept, since a cell's widget that is disposed has no model any more. */
  private readonly _model: Cell['model'];
  private readonly _change = element('button', 'link', 'Show change');
  private readonly _fault = element('span');
  private readonly _lines = element('div', 'lines');
  private _view: EditorView | null = null;
  private _isDisposed = false;
}
