/** The state of the notebook that is in front, whichever that is. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import { ABSENT } from '../state';
import type { IPanelState } from '../state';
import { NotebookLink } from './link';

/** Links every open notebook to its own kernel, and shows the one in front. */
export class CurrentNotebook {
  constructor(tracker: INotebookTracker, shell: JupyterFrontEnd.IShell) {
    this._shell = shell;
    tracker.forEach(panel => {
      this._add(panel);
    });
    tracker.widgetAdded.connect((_, panel) => {
      this._add(panel);
    });
    tracker.currentChanged.connect(this._touch, this);
    shell.currentChanged?.connect(this._touch, this);
  }

  /** The state of the notebook in front; `absent` when something else is. */
  get state(): IPanelState {
    const front = this._shell.currentWidget;
    return (front && this._links.get(front)?.state) ?? ABSENT;
  }

  /** Fired when `state` may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  private _add(panel: NotebookPanel): void {
    if (this._links.has(panel)) {
      return;
    }
    const link = new NotebookLink(panel.sessionContext);
    this._links.set(panel, link);
    link.changed.connect(this._touch, this);
    panel.disposed.connect(() => {
      this._links.delete(panel);
      link.dispose();
      this._touch();
    });
  }

  private _touch(): void {
    this._changed.emit();
  }

  private readonly _shell: JupyterFrontEnd.IShell;
  private readonly _links = new Map<Widget, NotebookLink>();
  private readonly _changed = new Signal<this, void>(this);
}
