/** One notebook's link to whatever kernel it has, and the state that comes of it. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

import { KernelClient } from '../client';
import type { Respond } from '../client';
import { ABSENT, reduce } from '../state';
import type { IPanelState, PanelEvent } from '../state';

export class NotebookLink implements IDisposable {
  /** `respond` answers what the notebook's kernel asks of the notebook. */
  constructor(context: ISessionContext, respond: Respond) {
    this._context = context;
    this._respond = respond;
    context.kernelChanged.connect(this._follow, this);
    this._follow();
  }

  get state(): IPanelState {
    return this._state;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._context.kernelChanged.disconnect(this._follow, this);
    this._client?.dispose();
    this._client = null;
    Signal.clearData(this);
  }

  /** `kernelChanged` fires more than once for one kernel: the same connection is kept. */
  private _follow(): void {
    const kernel = this._context.session?.kernel ?? null;
    if (this._client?.kernel === kernel) {
      return;
    }
    this._client?.dispose();
    this._client = null;
    this._apply({ type: 'disconnected' });
    if (kernel) {
      this._client = new KernelClient(
        kernel,
        event => {
          this._apply(event);
        },
        this._respond
      );
    }
  }

  private _apply(event: PanelEvent): void {
    this._state = reduce(this._state, event);
    this._changed.emit();
  }

  private readonly _context: ISessionContext;
  private readonly _respond: Respond;
  private readonly _changed = new Signal<this, void>(this);
  private _client: KernelClient | null = null;
  private _state: IPanelState = ABSENT;
  private _isDisposed = false;
}
