/** One view's link to the kernel, through the widget's model: the protocol in custom messages. */

import { Calls } from '../calls';
import { parseMessage, PROTOCOL } from '../events';
import { Feed } from '../feed';
import { CallError } from '../host';
import type { CallArgs, CallOp, CallResult } from '../panel';
import { isRefused, parseResult } from '../parse';
import { ABSENT, reduce } from '../state';
import type { IPanelState } from '../state';
import type { IDisposable } from '../view/frame';

/** What anywidget gives of a model. */
export interface IModel {
  get(name: string): unknown;
  send(content: unknown): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
}

/** So long after a vain try the conversation is asked for again, in milliseconds. */
const AGAIN_MS = 2_000;

/** So long the answer to `open` is waited for, in milliseconds; then it is asked for anew. */
const OPEN_MS = 5_000;

export class WidgetLink implements IDisposable {
  constructor(
    private readonly _model: IModel,
    private readonly _onChange: () => void
  ) {
    this._calls = new Calls(this._client, part => {
      _model.send(part);
    });
    this.feed = new Feed(
      (op, args) => this.ask(op, args),
      () => {
        this._feedChanged();
      }
    );
    _model.on('msg:custom', this._hear);
    _model.on('comm_live_update', this._lose);
    _model.on('comm:close', this._lose);
    _model.send({ version: PROTOCOL, type: 'hello' }); // the kernel tells the gauge's numbers
    void this.feed.open();
  }

  readonly feed: Feed;

  /** The gauge's state. */
  get state(): IPanelState {
    return this._state;
  }

  /** Whether the kernel that the widget belongs to is gone, restarted or not. */
  get isGone(): boolean {
    return this._isGone;
  }

  /** Ask the kernel's extension; what it answers is narrowed. Rejects with a CallError. */
  async ask<T extends CallOp>(op: T, args: CallArgs<T>): Promise<CallResult<T>> {
    if (this._isGone) {
      throw new CallError('absent', GONE_TEXT);
    }
    // One that went out before the front end had its way round a running cell waits behind it.
    const deadline = op === 'open' ? OPEN_MS : undefined;
    const result = parseResult(op, await this._calls.call(op, args, deadline));
    if (isRefused(result)) {
      throw new CallError('broken', result.reason);
    }
    return result;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    if (!this._isGone) {
      this._model.send({ version: PROTOCOL, type: 'bye', client: this._client });
    }
    this._model.off('msg:custom', this._hear);
    this._model.off('comm_live_update', this._lose);
    this._model.off('comm:close', this._lose);
    this._calls.abandon('absent', GONE_TEXT);
  }

  private readonly _hear = (data: unknown): void => {
    const { type, version, epoch } = (data ?? {}) as Readonly<Record<string, unknown>>;
    if (type === 'panel' && version === PROTOCOL) {
      this.feed.hear(data);
    } else if (type === 'answer' && version === PROTOCOL) {
      this._calls.hear(data);
    } else if (type !== 'request') {
      const message = parseMessage(data);
      if (message.type !== 'request') {
        this._state = reduce(this._state, message);
      }
      if (type === 'hello' && typeof epoch === 'string' && !this.feed.isOf(epoch)) {
        void this.feed.open();
      }
      this._onChange();
    }
  };

  private readonly _lose = (): void => {
    this._isGone = true;
    this._state = reduce(this._state, { type: 'disconnected' });
    this._calls.abandon('absent', GONE_TEXT);
    this.feed.lose();
    this._onChange();
  };

  private _feedChanged(): void {
    clearTimeout(this._timer);
    const { is } = this.feed.state;
    if ((is === 'busy' || is === 'failed') && !this._isDisposed && !this._isGone) {
      this._timer = setTimeout(() => void this.feed.open(), AGAIN_MS);
    }
    this._onChange();
  }

  private readonly _client = `widget-${randomId()}`;
  private readonly _calls: Calls;
  private _state: IPanelState = ABSENT;
  private _isGone = false;
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

export const GONE_TEXT = 'The kernel that this belonged to is gone.';

/** Not crypto.randomUUID: a page that came by plain http has none. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}
