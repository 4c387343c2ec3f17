/** One notebook's link to whatever kernel it has, and what comes of it: gauge and conversation. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

import { KernelClient } from '../client';
import type { Respond } from '../client';
import { Feed } from '../feed';
import { PROTOCOL } from '../events';
import { CallError } from '../host';
import type { CallArgs, CallOp, CallResult } from '../panel';
import { isRefused, parseResult } from '../parse';
import { ABSENT, reduce } from '../state';
import type { IPanelState, PanelEvent } from '../state';
import { SILENT_MS } from '../silence';
import { hindrance, load, otherVersion, SILENT } from './load';
import type { Loading } from './load';

/** How often a busy kernel is looked at again, in milliseconds; only whether it is idle. */
const AGAIN_MS = 1_000;

/** Loading takes less; a kernel that still works after this long runs something else. */
const SLOW_MS = 2_000;

export class NotebookLink implements IDisposable {
  /** `respond` answers what the notebook's kernel asks of the notebook. */
  constructor(context: ISessionContext, respond: Respond) {
    this._context = context;
    this._respond = respond;
    this.feed = new Feed(
      (op, args) => this.ask(op, args),
      () => {
        this._feedChanged.emit();
        this._waitIfBusy();
      }
    );
    context.kernelChanged.connect(this._onKernel, this);
    context.statusChanged.connect(this._onStatus, this);
    context.connectionStatusChanged.connect(this._onConnection, this);
    this._late = setTimeout(() => {
      this._hasBegun = true;
      this._advance();
    }, SILENT_MS);
    this._follow();
  }

  /** The conversation with this kernel; closed until `show` was called. */
  readonly feed: Feed;

  get context(): ISessionContext {
    return this._context;
  }

  get state(): IPanelState {
    return this._state;
  }

  /** How far the kernel is; follows from `show` on. */
  get loading(): Loading {
    return this._loading;
  }

  /** Whether the page has lost the kernel that it spoke with, and tries to come back. */
  get isCutOff(): boolean {
    return this._client?.isHeard === true && this._client.kernel.connectionStatus !== 'connected';
  }

  /** Fired when the gauge's `state` may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Fired when `feed`, `loading` or `isCutOff` may have changed. */
  get feedChanged(): ISignal<this, void> {
    return this._feedChanged;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** The panel shows this notebook: load the extension if need be, and open the conversation. */
  show(): void {
    this._isShown = true;
    this._advance();
  }

  /** Look again at a kernel where something was missing. */
  retry(): void {
    this._failed = null;
    this._client?.probe();
    if (this.feed.state.is === 'failed') {
      void this.feed.open();
    }
    this._advance();
  }

  /** Ask the kernel's extension; what it answers is narrowed. Rejects with a CallError. */
  async ask<T extends CallOp>(op: T, args: CallArgs<T>): Promise<CallResult<T>> {
    if (!this._client) {
      throw new CallError('absent', 'This notebook has no kernel.');
    }
    const result = parseResult(op, await this._client.call(op, args));
    if (isRefused(result)) {
      throw new CallError('broken', result.reason);
    }
    return result;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._late);
    this._context.kernelChanged.disconnect(this._onKernel, this);
    this._context.statusChanged.disconnect(this._onStatus, this);
    this._context.connectionStatusChanged.disconnect(this._onConnection, this);
    if (this._timer !== null) {
      clearTimeout(this._timer);
    }
    this._client?.dispose();
    this._client = null;
    Signal.clearData(this);
  }

  private _onKernel(): void {
    this._hasBegun = true;
    this._follow();
  }

  /** `kernelChanged` fires more than once for one kernel: the same connection is kept. */
  private _follow(): void {
    const kernel = this._context.session?.kernel ?? null;
    if (this._client?.kernel === kernel) {
      this._advance();
      return;
    }
    this._client?.dispose();
    this._client = null;
    this._apply({ type: 'disconnected' });
    this.feed.clear();
    if (kernel) {
      this._client = new KernelClient(
        kernel,
        event => {
          this._apply(event);
        },
        this._respond,
        message => {
          this._hear(message);
        }
      );
      this._client.activity.changed.connect(this._advance, this);
      void this._client.probed.then(() => {
        this._advance();
      });
    }
    this._advance();
  }

  /** Take a hello, which tells of the extension that speaks, or a message of the conversation. */
  private _hear(message: unknown): void {
    const hello = message as Readonly<Record<string, unknown>>;
    const { type, version, epoch } = hello;
    if (type !== 'hello') {
      this.feed.hear(message);
    } else {
      const isKnown = version === PROTOCOL && typeof epoch === 'string';
      this._failed = isKnown ? null : otherVersion(hello['package_version'], version);
      if (this._isShown && isKnown && !this.feed.isOf(epoch)) {
        this._become({ is: 'loaded' });
        void this.feed.open();
      }
      this._advance();
    }
  }

  /** A kernel that did not answer, and now says something, is asked anew. */
  private _onStatus(): void {
    this._hasBegun = true;
    if (this._failed === SILENT) {
      this.retry();
    } else {
      this._advance();
    }
  }

  private _onConnection(): void {
    this._feedChanged.emit();
    this._advance();
  }

  /** Do the next thing that is possible, if the panel shows this notebook. */
  private _advance(): void {
    const client = this._client;
    if (!this._isShown || this._isDisposed || this._isLoading) {
      return;
    }
    const told = { isHeard: client?.isHeard === true, hasBegun: this._hasBegun };
    const hindered = hindrance(this._context, told) ?? this._failed;
    if (hindered || !client) {
      this._become(hindered ?? { is: 'starting' });
    } else if (client.isHeard) {
      this._open(client);
    } else {
      this._isLoading = true;
      void this._load(client);
    }
  }

  /** A kernel that was busy may be idle by the time it says so: nothing else would tell. */
  private _waitIfBusy(): void {
    if (this.feed.state.is === 'busy' && this._timer === null) {
      this._timer = setTimeout(() => {
        this._timer = null;
        this._advance();
        this._waitIfBusy();
      }, AGAIN_MS);
    }
  }

  private _open(client: KernelClient): void {
    this._become({ is: 'loaded' });
    const { is } = this.feed.state;
    if (is === 'closed' || (is === 'busy' && client.activity.isIdle)) {
      void this.feed.open();
    }
  }

  private async _load(client: KernelClient): Promise<void> {
    const isAnswered = await client.probed;
    if (client === this._client && !client.isHeard) {
      if (isAnswered) {
        await this._loadInto(client);
      } else {
        this._failed = SILENT;
        this._become(SILENT);
      }
    }
    this._isLoading = false;
    const isFree = client.activity.isIdle && !this._failed;
    if (client !== this._client || client.isHeard || isFree) {
      this._advance();
    }
  }

  private async _loadInto(client: KernelClient): Promise<void> {
    if (!client.activity.isIdle) {
      this._become({ is: 'busy' });
      return;
    }
    this._become({ is: 'loading' });
    // A cell may have been on its way before this question: then that is what is waited for.
    const slow = setTimeout(() => {
      if (client === this._client && !client.isHeard && !client.activity.isIdle) {
        this._become({ is: 'busy' });
      }
    }, SLOW_MS);
    const loading = await load(client.kernel, client.activity);
    clearTimeout(slow);
    if (client === this._client && !client.isHeard) {
      // One that is loaded and silent is too old to speak with a page.
      this._failed = loading.is === 'loaded' ? otherVersion(null, null) : loading;
      this._failed = loading.is === 'busy' ? null : this._failed;
      this._become(loading);
    }
  }

  private _become(loading: Loading): void {
    if (loading.is !== this._loading.is || loading.is === 'missing') {
      this._loading = loading;
      this._feedChanged.emit();
    }
  }

  private _apply(event: PanelEvent): void {
    this._state = reduce(this._state, event);
    this._changed.emit();
    if (event.type === 'disconnected') {
      this._failed = null;
      this.feed.lose();
      this._advance();
    }
  }

  private readonly _context: ISessionContext;
  private readonly _respond: Respond;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _feedChanged = new Signal<this, void>(this);
  private _client: KernelClient | null = null;
  private _state: IPanelState = ABSENT;
  private _loading: Loading = { is: 'none' };
  /** What the kernel lacks, as it said itself. */
  private _failed: Loading | null = null;
  private _timer: ReturnType<typeof setTimeout> | null = null;
  /** A notebook without a kernel for this long has none; until then it is being opened. */
  private readonly _late: ReturnType<typeof setTimeout>;
  private _hasBegun = false;
  private _isShown = false;
  private _isLoading = false;
  private _isDisposed = false;
}
