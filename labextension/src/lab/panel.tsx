/** The agent's panel in JupyterLab's side area: shows the conversation of the notebook in use. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Drag } from '@lumino/dragdrop';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import { EMPTY } from '../conversation';
import type { FeedState } from '../feed';
import type { IHost } from '../host';
import type { CallArgs, CallOp, IEarlier } from '../panel';
import { ABSENT } from '../state';
import type { IAction, IActions } from '../view/context';
import { Panel } from '../view/panel';
import type { IPanelHandle } from '../view/panel';
import type { CurrentNotebook } from './current';
import { canMention, mentionsOf } from './dropped';
import { faultOf, NO_NOTEBOOK } from './fault';
import { LabHost } from './host';
import { agentIcon } from './icon';
import type { NotebookLink } from './link';
import type { Loading } from './load';
import { PANEL } from './names';

/** What the settings say of the panel. */
export interface IPanelSettings {
  readonly sendOn: IActions['sendOn'];
  readonly gauge: IActions['gauge'];
  readonly remoteImages: boolean;
}

export interface IPanelParts {
  readonly shell: JupyterFrontEnd.IShell;
  readonly notebooks: CurrentNotebook;
  readonly rendermime: IRenderMimeRegistry;
  readonly languages: IEditorLanguageRegistry | null;
  readonly menu: readonly IAction[];
}

/** One notebook that was shown: its view stays in the page, so that drafts and places stay. */
interface IShown {
  readonly key: number;
  readonly link: NotebookLink;
  readonly host: IHost;
  readonly handle: React.RefObject<IPanelHandle>;
}

export class AgentPanel extends ReactWidget {
  constructor(parts: IPanelParts) {
    super();
    this.id = PANEL;
    this.addClass('jctx');
    this.addClass('jctx-side');
    this.title.icon = agentIcon;
    this.title.caption = 'Agent';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Agent');
    this.node.tabIndex = -1;
    this._parts = parts;
    parts.notebooks.usedChanged.connect(this._follow, this);
    parts.notebooks.feedChanged.connect(this._onFeed, this);
    NotebookActions.executed.connect(this._onExecuted, this);
  }

  /** Fired when the conversation, or whether the panel is seen, may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get settings(): IPanelSettings {
    return this._settings;
  }

  set settings(settings: IPanelSettings) {
    this._settings = settings;
    this.node.dataset['sendOn'] = settings.sendOn;
    this.update();
  }

  /** Whether the agent does something for the notebook in use. */
  get isRunning(): boolean {
    return this._link?.feed.conversation.isRunning === true;
  }

  /** Whether the notebook in use has a conversation here. */
  get isOpen(): boolean {
    return this._link?.feed.state.is === 'open';
  }

  get hasFocus(): boolean {
    return this.node.contains(document.activeElement);
  }

  /** Ask the kernel of the notebook in use. Rejects with a CallError. */
  async call<T extends CallOp>(op: T, args: CallArgs<T>): Promise<unknown> {
    return this._link ? this._link.ask(op, args) : null;
  }

  /** Stop what runs for the notebook in use; again: interrupt its kernel. */
  stop(): void {
    this._shown.find(one => one.link === this._link)?.handle.current?.stop();
  }

  /** Put text into the prompt of the notebook in use, at the cursor, and go there. */
  insert(text: string): void {
    this._pending = text;
    this._settle();
  }

  /** Show the list of sessions, once the conversation of the notebook in use is there. */
  showSessions(): void {
    this._wantsSessions = true;
    this._settle();
  }

  /** Go to the prompt of the notebook in use, once it is there; not if the person goes elsewhere. */
  focusPrompt(): void {
    this._pending ??= '';
    this._settle();
    if (this._pending === '') {
      for (const name of ACTS) {
        document.addEventListener(name, this._onActed, true);
      }
    }
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    NotebookActions.executed.disconnect(this._onExecuted, this);
    this._parts.notebooks.usedChanged.disconnect(this._follow, this);
    this._parts.notebooks.feedChanged.disconnect(this._onFeed, this);
    Signal.clearData(this);
    this._forgetActs();
    super.dispose();
  }

  /** What is dragged within JupyterLab: its own events, not the browser's. */
  handleEvent(event: Event): void {
    const drag = event as unknown as Drag.Event;
    switch (event.type) {
      case 'lm-dragenter':
      case 'lm-dragover':
        this._onDrag(drag);
        break;
      case 'lm-dragleave':
        this.removeClass('jctx-dropping');
        break;
      case 'lm-drop':
        this._onDrop(drag);
        break;
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    for (const name of DRAGS) {
      this.node.addEventListener(name, this, true);
    }
    this._follow();
  }

  protected override onBeforeDetach(message: Message): void {
    for (const name of DRAGS) {
      this.node.removeEventListener(name, this, true);
    }
    super.onBeforeDetach(message);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._follow();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.update();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.focusPrompt();
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    void this.renderPromise?.then(() => {
      this._settle();
    });
  }

  protected override render(): React.ReactElement {
    const { _link: link, _shown: shown } = this;
    if (!link) {
      const actions = this._actions(null);
      return <Panel host={NO_HOST} conversation={EMPTY} panelState={ABSENT} actions={actions} />;
    }
    return (
      <>
        {shown.map(one => (
          <div key={one.key} className="jctx-notebook" hidden={one.link !== link}>
            <Shown
              shown={one}
              isSeen={one.link === link && this.isVisible}
              actions={this._actions(one.link)}
            />
          </div>
        ))}
      </>
    );
  }

  /** The same object as long as nothing in it changed, so that the view need not be drawn anew. */
  private _actions(link: NotebookLink | null): IActions {
    const notebook = link ? (this._parts.notebooks.viewOf(link)?.content ?? null) : null;
    const actions = {
      replaceLabel: replaceLabel(notebook),
      canOpen: notebook !== null,
      canInsert: notebook?.model?.readOnly === false,
      menu: this._parts.menu,
      examples: NO_EXAMPLES,
      sendOn: this._settings.sendOn,
      gauge: this._settings.gauge
    };
    const isCutOff = link?.isCutOff === true;
    const basis = [...Object.values(actions), link?.loading, link?.feed.state, isCutOff];
    const known = this._known.get(link);
    if (known && basis.every((value, at) => value === known.basis[at])) {
      return known.actions;
    }
    const type = (line: string): void => {
      this._shown.find(one => one.link === link)?.host.insertBelow(line);
    };
    const fault = link ? faultOf(link, type) : NO_NOTEBOOK;
    const made = { ...actions, fault, notice: isCutOff ? CUT_OFF : '' };
    this._known.set(link, { basis, actions: made });
    return made;
  }

  /** Show the notebook in use: the last one that was in front. */
  private _follow(): void {
    const { notebooks } = this._parts;
    const link = notebooks.used;
    for (const { link: gone } of this._shown.filter(one => one.link.isDisposed)) {
      this._known.delete(gone);
    }
    this._shown = this._shown.filter(one => !one.link.isDisposed);
    this._link = link;
    if (link && !this._shown.some(one => one.link === link)) {
      const handle = React.createRef<IPanelHandle>();
      const shown = { key: this._nextKey++, link, host: this._makeHost(link), handle };
      this._shown = [...this._shown, shown];
    }
    if (link && this.isVisible) {
      link.show();
    }
    this.update();
    this._changed.emit();
  }

  private _makeHost(link: NotebookLink): IHost {
    const { shell, rendermime, languages, notebooks } = this._parts;
    return new LabHost({
      shell,
      rendermime,
      languages,
      showsRemoteImages: () => this._settings.remoteImages,
      notebook: () => notebooks.viewOf(link),
      call: (op, args) => link.ask(op as CallOp, args)
    });
  }

  private _onFeed(_: unknown, link: NotebookLink): void {
    if (link !== this._link) {
      return;
    }
    const isAsked = link.feed.conversation.question !== null;
    this.title.className = isAsked && !this.isVisible ? 'jctx-waiting' : '';
    this.title.caption = isAsked ? 'Agent: waiting for you' : 'Agent';
    const { loading, isCutOff } = link;
    const { state } = link.feed;
    const last = this._last;
    if (loading !== last?.loading || state !== last.state || isCutOff !== last.isCutOff) {
      this._last = { loading, state, isCutOff };
      this.update();
    }
    this._settle();
    this._changed.emit();
  }

  /** A cell ran: what was missing may be there now. */
  private _onExecuted(_: unknown, { notebook }: { notebook: Notebook }): void {
    const link = this._link;
    if (
      link?.loading.is === 'missing' &&
      this._parts.notebooks.viewOf(link)?.content === notebook
    ) {
      link.retry();
    }
  }

  private _onDrag(event: Drag.Event): void {
    if (!this.isOpen || !canMention(event.mimeData)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
    this.addClass('jctx-dropping');
  }

  private _onDrop(event: Drag.Event): void {
    this.removeClass('jctx-dropping');
    if (!this.isOpen || !canMention(event.mimeData)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
    const path = this._link
      ? (this._parts.notebooks.viewOf(this._link)?.context.localPath ?? '')
      : '';
    const folder = path.split('/').slice(0, -1).join('/');
    this.insert(mentionsOf(event.mimeData, folder).join(' '));
  }

  /** Do what waits for the prompt, once it is seen and takes text. */
  private _settle(): void {
    const text = this._pending;
    if ((text === null && !this._wantsSessions) || !this.isVisible) {
      return;
    }
    const field = this.node.querySelector<HTMLTextAreaElement>(PROMPT);
    const handle = this._shown.find(one => one.link === this._link)?.handle.current;
    if (handle && field && !field.disabled) {
      const wantsSessions = this._wantsSessions;
      this._pending = null;
      this._wantsSessions = false;
      this._forgetActs();
      if (wantsSessions) {
        handle.showSessions();
      }
      if (text) {
        handle.insert(text);
      } else if (!wantsSessions) {
        handle.focus();
      }
    } else if (this.isOpen) {
      requestAnimationFrame(() => {
        this._settle(); // the view draws what is open with the next frame
      });
    } else if (!this.hasFocus) {
      this.node.focus();
    }
  }

  /** Who clicks or types elsewhere while the prompt is not there yet is left there. */
  private readonly _onActed = (event: Event): void => {
    if (!(event.target instanceof Node && this.node.contains(event.target))) {
      this._pending ||= null;
      this._forgetActs();
    }
  };

  private _forgetActs(): void {
    for (const name of ACTS) {
      document.removeEventListener(name, this._onActed, true);
    }
  }

  private readonly _parts: IPanelParts;
  private readonly _changed = new Signal<this, void>(this);
  private _settings: IPanelSettings = { sendOn: 'enter', gauge: 'full', remoteImages: false };
  private _link: NotebookLink | null = null;
  private _shown: readonly IShown[] = [];
  private _nextKey = 0;
  private _last: {
    readonly loading: Loading;
    readonly state: FeedState;
    readonly isCutOff: boolean;
  } | null = null;
  private readonly _known = new Map<NotebookLink | null, IKnown>();
  private _pending: string | null = null;
  private _wantsSessions = false;
}

/** What the view was given last for a notebook, and of what that was made. */
interface IKnown {
  readonly basis: readonly unknown[];
  readonly actions: IActions;
}

interface IShownProps {
  readonly shown: IShown;
  readonly isSeen: boolean;
  readonly actions: IActions;
}

/** One notebook's view, drawn anew when something of that notebook changed. */
const Shown = React.memo(function Shown(props: IShownProps): React.ReactElement {
  const { shown, isSeen, actions } = props;
  const { link, host, handle } = shown;
  const conversation = React.useSyncExternalStore(
    React.useCallback(onChange => subscribe(link.feedChanged, onChange), [link]),
    () => link.feed.conversation
  );
  const panelState = React.useSyncExternalStore(
    React.useCallback(onChange => subscribe(link.changed, onChange), [link]),
    () => link.state
  );
  // A question that nobody sees is asked elsewhere: the view would say that it was seen.
  const seen = React.useMemo(
    () => (isSeen ? conversation : { ...conversation, question: null }),
    [isSeen, conversation]
  );
  const addEarlier = React.useCallback(
    (answer: IEarlier) => {
      link.feed.addEarlier(answer);
    },
    [link]
  );
  return (
    <Panel
      ref={handle}
      host={host}
      conversation={seen}
      panelState={panelState}
      actions={actions}
      addEarlier={addEarlier}
    />
  );
});

function subscribe(signal: ISignal<unknown, unknown>, onChange: () => void): () => void {
  const slot = (): void => {
    onChange();
  };
  signal.connect(slot);
  return () => {
    signal.disconnect(slot);
  };
}

function replaceLabel(notebook: Notebook | null): string | null {
  const cell = notebook?.activeCell;
  const isFree = notebook?.model?.readOnly === false && cell?.model.type === 'code';
  return isFree && cell.model.getMetadata('editable') !== false
    ? `Replace cell ${notebook.activeCellIndex + 1}`
    : null;
}

const CUT_OFF =
  'No connection to the Jupyter server. Nothing is lost: it goes on when the connection is back.';

const NO_EXAMPLES: readonly string[] = [];

const PROMPT = '.jctx-notebook:not([hidden]) .jctx-box > textarea';

const ACTS = ['pointerdown', 'keydown'] as const;
const DRAGS = ['lm-dragenter', 'lm-dragleave', 'lm-dragover', 'lm-drop'] as const;

/** Nothing is drawn or asked where there is no notebook. */
const NO_HOST: IHost = {
  renderMarkdown: (text, node) => {
    node.textContent = text;
    return Promise.resolve();
  },
  highlight: (code, _, node) => {
    node.textContent = code;
  },
  renderOutputs: () => ({ dispose: () => undefined }),
  call: () => Promise.resolve({}),
  copy: text => navigator.clipboard.writeText(text),
  insertBelow: () => undefined,
  replaceCell: () => undefined,
  openCell: () => undefined,
  now: () => Date.now()
};
