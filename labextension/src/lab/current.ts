/** The state of the notebook that is in front, whichever that is. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

import { ABSENT } from '../state';
import type { IPanelState } from '../state';
import { NotebookBridge } from './bridge';
import type { IEdited } from './bridge';
import { NotebookLink } from './link';
import { markSession } from './mark';

/** Links every open notebook to its own kernel, and shows the one in front. */
export class CurrentNotebook {
  constructor(tracker: INotebookTracker, shell: JupyterFrontEnd.IShell) {
    this._shell = shell;
    this._tracker = tracker;
    tracker.forEach(panel => {
      this._add(panel);
    });
    tracker.widgetAdded.connect((_, panel) => {
      this._add(panel);
    });
    tracker.currentChanged.connect(this._touch, this);
    tracker.currentChanged.connect(this._touchUsed, this);
    tracker.activeCellChanged.connect(this._touchUsed, this);
    shell.currentChanged?.connect(this._touch, this);
  }

  /** The state of the notebook in front; `absent` when something else is. */
  get state(): IPanelState {
    const front = this._shell.currentWidget;
    const found = [...this._links].find(([panel]) => panel === front);
    return found?.[1].state ?? ABSENT;
  }

  /** Fired when `state` may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The link of the notebook that was in front last, null if none is open. */
  get used(): NotebookLink | null {
    const panel = this._tracker.currentWidget;
    return (panel && this._links.get(panel)) ?? null;
  }

  /** Fired when `used`, its active cell or its name may be another. */
  get usedChanged(): ISignal<this, void> {
    return this._usedChanged;
  }

  /** Fired with the link whose conversation or loading may have changed. */
  get feedChanged(): ISignal<this, NotebookLink> {
    return this._feedChanged;
  }

  /** Fired when the agent has changed a cell of that link's notebook. */
  get edited(): ISignal<this, { readonly link: NotebookLink; readonly edited: IEdited }> {
    return this._edited;
  }

  /** Return the link of a view, null if it is not followed. */
  linkOf(panel: NotebookPanel): NotebookLink | null {
    return this._links.get(panel) ?? null;
  }

  /** Every link there is. */
  get links(): readonly NotebookLink[] {
    return [...new Set(this._links.values())];
  }

  /** Return the view of that link's notebook that was used last, null if it is closed. */
  viewOf(link: NotebookLink): NotebookPanel | null {
    const views = [...this._links].filter(([, other]) => other === link).map(([view]) => view);
    return views.find(view => view === this._tracker.currentWidget) ?? views[0] ?? null;
  }

  private _add(panel: NotebookPanel): void {
    if (this._links.has(panel)) {
      return;
    }
    const { sessionContext } = panel;
    // A second view of a notebook shares its session: one link, so that no edit is made twice.
    const shared = [...this._links].find(([other]) => other.sessionContext === sessionContext);
    const link = shared?.[1] ?? this._link(panel);
    this._links.set(panel, link);
    panel.disposed.connect(() => {
      this._links.delete(panel);
      if (![...this._links.values()].includes(link)) {
        link.dispose();
      }
      this._touch();
      this._usedChanged.emit();
    });
    this._usedChanged.emit();
  }

  private _link(panel: NotebookPanel): NotebookLink {
    const { sessionContext, context } = panel;
    const bridge = new NotebookBridge(context, () => this._viewOf(sessionContext));
    const link = new NotebookLink(sessionContext, request => bridge.respond(request));
    bridge.edited.connect((_, edited) => {
      this._edited.emit({ link, edited });
    });
    link.changed.connect(this._touch, this);
    link.changed.connect(() => {
      const { session } = link.state;
      if (session !== null && context.isReady && !context.model.readOnly) {
        markSession(context.model.sharedModel, session);
      }
    });
    link.feedChanged.connect(() => {
      this._feedChanged.emit(link);
    });
    return link;
  }

  /** Return a view of the notebook of that session, the last one used if it is that. */
  private _viewOf(sessionContext: ISessionContext): Notebook | null {
    const views = [...this._links.keys()].filter(view => view.sessionContext === sessionContext);
    const last = views.find(view => view === this._tracker.currentWidget);
    return (last ?? views[0])?.content ?? null;
  }

  private _touch(): void {
    this._changed.emit();
  }

  private _touchUsed(): void {
    this._usedChanged.emit();
  }

  private readonly _shell: JupyterFrontEnd.IShell;
  private readonly _tracker: INotebookTracker;
  private readonly _links = new Map<NotebookPanel, NotebookLink>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _usedChanged = new Signal<this, void>(this);
  private readonly _edited = new Signal<
    this,
    { readonly link: NotebookLink; readonly edited: IEdited }
  >(this);
  private readonly _feedChanged = new Signal<this, NotebookLink>(this);
}
