/** Whether a kernel runs something, and a deadline for what it answers by itself once it does not. */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

/** A kernel at rest answers in milliseconds; this long, and the answer was lost. */
export const SILENT_MS = 10_000;

/** The kernel had nothing to do, and did not answer. */
export class SilentError extends Error {}

/** What is watched of a kernel connection. */
type Watched = Pick<
  Kernel.IKernelConnection,
  'status' | 'statusChanged' | 'connectionStatusChanged' | 'iopubMessage'
>;

/** Stands for what ran already when the page came. */
const BEFORE = '';

/**
 * Whether the kernel runs anything, request by request.
 *
 * The status of the connection is that of the newest message: a question on the control channel or
 * in a subshell, answered in between, makes a kernel `idle` that still runs a cell.
 */
export class Activity implements IDisposable {
  constructor(kernel: Watched) {
    this._kernel = kernel;
    if (kernel.status === 'busy') {
      this._running.add(BEFORE);
    }
    kernel.iopubMessage.connect(this._onMessage, this);
    kernel.statusChanged.connect(this._onStatus, this);
    kernel.connectionStatusChanged.connect(this._onConnection, this);
  }

  /** Whether it is there, and nothing runs in it. */
  get isIdle(): boolean {
    return this._kernel.status === 'idle' && this._running.size === 0;
  }

  /** Fired when `isIdle` may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._kernel.iopubMessage.disconnect(this._onMessage, this);
      this._kernel.statusChanged.disconnect(this._onStatus, this);
      this._kernel.connectionStatusChanged.disconnect(this._onConnection, this);
      Signal.clearData(this);
    }
  }

  private _onMessage(_: unknown, message: KernelMessage.IIOPubMessage): void {
    const { msg_id: id } = message.parent_header as { readonly msg_id?: string };
    if (id === undefined) {
      return; // of the kernel itself, as when it starts
    }
    if (message.header.msg_type === 'execute_input') {
      this._running.clear(); // a cell begins: what ran before it has ended, heard or not
      this._running.add(id);
      return;
    }
    if (message.header.msg_type !== 'status') {
      return;
    }
    const { execution_state: state } = (message as KernelMessage.IStatusMsg).content;
    if (state === 'busy') {
      this._running.add(id);
    } else if (state === 'idle' && !this._running.delete(id)) {
      this._running.delete(BEFORE);
    }
    this._changed.emit();
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status !== 'busy' && status !== 'idle') {
      this._running.clear(); // a kernel that starts anew ends nothing that ran
    }
    this._changed.emit();
  }

  /** What ended while the connection was down was not heard. */
  private _onConnection(): void {
    this._running.clear();
    this._changed.emit();
  }

  private readonly _kernel: Watched;
  private readonly _running = new Set<string>();
  private readonly _changed = new Signal<this, void>(this);
  private _isDisposed = false;
}

/**
 * Return the answer. Rejects with a SilentError once the kernel has been idle for `SILENT_MS` on
 * end: while it starts or runs a cell, an answer may take as long as that does.
 */
export function unlessSilent<T>(
  activity: Pick<Activity, 'isIdle' | 'changed'>,
  answer: Promise<T>
): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (): void => {
      clearTimeout(timer);
      if (activity.isIdle) {
        timer = setTimeout(() => {
          end();
          reject(new SilentError('The kernel is idle and does not answer.'));
        }, SILENT_MS);
      }
    };
    const end = (): void => {
      clearTimeout(timer);
      activity.changed.disconnect(wait);
    };
    activity.changed.connect(wait);
    wait();
    answer.then(resolve, reject).finally(end);
  });
}
