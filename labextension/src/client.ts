/** The comm to one kernel: finds it, keeps it, and turns its messages into events. */

import { KernelMessage } from '@jupyterlab/services';
import type { Kernel } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

import { Calls } from './calls';
import { parseMessage, PROTOCOL, split, TARGET } from './events';
import type { Answer, IPart, IRequest } from './events';
import { CallError } from './host';
import { Activity, unlessSilent } from './silence';
import type { PanelEvent } from './state';

type CommInfoRequest = KernelMessage.ICommInfoRequestMsg & KernelMessage.IControlMessage;
type ControlCommMessage = KernelMessage.ICommMsgMsg<'shell'> & KernelMessage.IControlMessage;

/** Answers what the kernel asks of the notebook; must return at once, and never throws. */
export type Respond = (request: IRequest) => Answer;

/** So many answered requests are remembered, so that one heard twice is answered once. */
const REMEMBERED = 256;

/**
 * The link to the extension in one kernel, for as long as the kernel connection lives.
 *
 * Two ways lead to a comm. The kernel opens one when the extension is loaded; the page opens one
 * when it comes to a kernel where the extension is loaded already (a reload, a second tab). The
 * kernel is asked which it is: a comm opened on a kernel without the extension would leave an error
 * line in that kernel's log, once for each notebook.
 *
 * Every call of the kernel connection here returns at once. Nothing may be awaited in a comm's
 * callback: the connection handles no further message until it is resolved.
 */
export class KernelClient implements IDisposable {
  constructor(
    kernel: Kernel.IKernelConnection,
    emit: (event: PanelEvent) => void,
    respond: Respond,
    hear: (message: unknown) => void = () => undefined
  ) {
    this._kernel = kernel;
    this._emit = emit;
    this._respond = respond;
    this._hear = hear;
    this._calls = new Calls(kernel.clientId, part => {
      this._tell(this._heard?.commId ?? '', part);
    });
    this.activity = new Activity(kernel);
    kernel.registerCommTarget(TARGET, this._onOpen);
    kernel.statusChanged.connect(this._onStatus, this);
    kernel.connectionStatusChanged.connect(this._onConnection, this);
    this._probed = this._ask();
  }

  /** Whether the kernel runs something. */
  readonly activity: Activity;

  /**
   * Resolves when the kernel has said whether the extension is loaded, or cannot be asked; with
   * false if it is idle and does not answer.
   */
  get probed(): Promise<boolean> {
    return this._probed;
  }

  /** Ask the kernel once more. */
  probe(): void {
    this._probed = this._ask();
  }

  /** Whether the extension in the kernel was heard: only then a call may reach it. */
  get isHeard(): boolean {
    return this._heard !== null;
  }

  /**
   * Ask the extension in the kernel, on the control channel: it answers while a cell runs. Resolves
   * with the result; rejects with a CallError, at the latest after the call's deadline.
   */
  call(op: string, args: object, deadlineMs?: number): Promise<unknown> {
    if (!this._heard || this._isDisposed || this._kernel.isDisposed) {
      return Promise.reject(new CallError('absent', NOT_LOADED));
    }
    return this._calls.call(op, args, deadlineMs);
  }

  get kernel(): Kernel.IKernelConnection {
    return this._kernel;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Let go of the kernel. The comm that the kernel opened stays: it is how a next page finds it. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.activity.dispose();
    this._kernel.statusChanged.disconnect(this._onStatus, this);
    this._kernel.connectionStatusChanged.disconnect(this._onConnection, this);
    if (!this._kernel.isDisposed) {
      this._kernel.removeCommTarget(TARGET, this._onOpen);
      if (this._own && !this._own.isDisposed && this._kernel.connectionStatus === 'connected') {
        this._own.close();
      }
    }
    this._comm = null;
    this._own = null;
    this._heard = null;
    this._calls.abandon('absent', GONE_TEXT);
  }

  /** An answer that comes late still counts. */
  private _ask(): Promise<boolean> {
    return unlessSilent(this.activity, this._probe()).then(
      () => true,
      () => false // `_probe` itself never rejects
    );
  }

  /**
   * Find out whether the extension is loaded, and open a comm of our own to it.
   *
   * While a cell runs, only the control channel is answered: until the kernel is free to take a new
   * comm, the page listens to one that is there.
   */
  private async _probe(): Promise<void> {
    const before = this._comm;
    try {
      const [first] = await this._findComms();
      if (!this._hears(before)) {
        return; // the kernel spoke meanwhile
      }
      if (first === undefined) {
        if (before) {
          this._forget();
        }
        return;
      }
      // Not waited for: while a cell runs that may take as long as the cell does.
      void this._openWhenFree(before ?? this._listenTo(first));
    } catch (error) {
      this._warn(error);
    }
  }

  private async _openWhenFree(now: Kernel.IComm): Promise<void> {
    try {
      await this._kernel.info;
      if (this._hears(now)) {
        await this._openOwn();
      }
    } catch (error) {
      this._warn(error);
    }
  }

  /** A kernel that went away while it was asked is probed again on its next connection. */
  private _warn(error: unknown): void {
    const { isDisposed, connectionStatus } = this._kernel;
    if (!this._isDisposed && !isDisposed && connectionStatus === 'connected') {
      console.error('jupyter_ctx: the kernel could not be asked for its context', error);
    }
  }

  /** Whether `comm`, or none if null, is still the one that counts. */
  private _hears(comm: Kernel.IComm | null): boolean {
    return !this._isDisposed && this._comm === comm;
  }

  /** Return the ids of the extension's comms in the kernel, none if it is not loaded. */
  private async _findComms(): Promise<string[]> {
    const request = KernelMessage.createMessage<KernelMessage.ICommInfoRequestMsg>({
      msgType: 'comm_info_request',
      channel: 'shell',
      username: this._kernel.username,
      session: this._kernel.clientId,
      content: { target_name: TARGET }
    });
    const onControl = { ...request, channel: 'control' } as unknown as CommInfoRequest;
    const reply: unknown = await this._kernel.sendControlMessage(onControl, true).done;
    const { content } = reply as KernelMessage.ICommInfoReplyMsg;
    return content.status === 'ok' ? Object.keys(content.comms) : [];
  }

  /** Hear what the kernel says on a comm that another page, or the kernel itself, has opened. */
  private _listenTo(id: string): Kernel.IComm {
    const comm = this._kernel.createComm(TARGET, id);
    this._adopt(comm);
    this._heard = comm;
    return comm;
  }

  private async _openOwn(): Promise<void> {
    const comm = this._kernel.createComm(TARGET);
    this._own = comm;
    this._adopt(comm);
    const started: unknown = (comm as { subshellStarted?: unknown }).subshellStarted;
    if (this._kernel.supportsSubshells) {
      await started; // before that the message would wait behind a running cell
    }
    if (!comm.isDisposed) {
      comm.open({});
    }
  }

  private readonly _onOpen = (comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): void => {
    if (this._isDisposed) {
      return;
    }
    this._adopt(comm);
    this._heard = comm;
    comm.send({ version: PROTOCOL, type: 'hello' }); // so the kernel knows that a page is there
    if ('version' in message.content.data) {
      this._take(comm, message.content.data);
    }
  };

  /** Take a message: of an earlier comm, only what the kernel asks still counts. */
  private _take(comm: Kernel.IComm, data: unknown): void {
    if (this._isDisposed) {
      return;
    }
    if (comm === this._own) {
      this._heard = comm; // before that the kernel does not know it
    }
    const { type, version } = (data ?? {}) as { type?: unknown; version?: unknown };
    if (version === PROTOCOL && type === 'panel') {
      this._hear(data); // of whichever comm: what was heard before is known by its number
      return;
    }
    if (version === PROTOCOL && type === 'answer') {
      this._calls.hear(data);
      return;
    }
    if (type === 'hello') {
      this._hear(data); // of any version: whoever hears it says what to do about another
    }
    const message = parseMessage(data);
    if (message.type === 'request') {
      this._answer(comm, message);
    } else if (this._comm === comm) {
      this._emit(message);
    }
  }

  /**
   * Answer a request, once, on the control channel: there the kernel hears it while a cell runs.
   * One that is meant for another page, or another notebook of this page, is left to that.
   */
  private _answer(comm: Kernel.IComm, request: IRequest): void {
    const { clientId } = this._kernel;
    const isOurs = request.to === null || request.to === clientId;
    if (this._isDisposed || !isOurs || this._answered.has(request.id)) {
      return;
    }
    this._answered.add(request.id);
    for (const oldest of this._answered) {
      if (this._answered.size <= REMEMBERED) {
        break;
      }
      this._answered.delete(oldest);
    }
    const answer = JSON.stringify(this._respond(request));
    for (const part of split('reply', request.id, clientId, answer)) {
      this._tell(comm.commId, part);
    }
  }

  /** Send it, or nothing while the connection is down: whoever waits for it asks again. */
  private _tell(commId: string, part: IPart<'reply' | 'call'>): void {
    if (this._kernel.isDisposed || this._kernel.connectionStatus !== 'connected') {
      return;
    }
    const message = KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'shell'>>({
      msgType: 'comm_msg',
      channel: 'shell',
      username: this._kernel.username,
      session: this._kernel.clientId,
      content: { comm_id: commId, data: { ...part } }
    });
    const onControl = { ...message, channel: 'control' } as unknown as ControlCommMessage;
    this._kernel.sendControlMessage(onControl, false);
  }

  /** From now on this comm counts; whatever still comes from an earlier one is stale. */
  private _adopt(comm: Kernel.IComm): void {
    this._comm = comm;
    comm.onMsg = message => {
      this._take(comm, message.content.data);
    };
    comm.onClose = () => {
      if (this._heard === comm) {
        this._heard = null;
      }
      if (this._comm === comm) {
        this._forget();
      }
    };
  }

  private _forget(): void {
    this._comm = null;
    this._own = null;
    this._heard = null;
    this._calls.abandon('absent', GONE_TEXT);
    this._emit({ type: 'disconnected' });
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (GONE.has(status)) {
      this._forget();
    }
  }

  /** Messages were lost while the connection was down: ask anew. */
  private _onConnection(_: unknown, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      if (this._wasDown) {
        this._wasDown = false;
        this._probed = this._ask();
      }
    } else {
      this._wasDown = true;
    }
  }

  private readonly _kernel: Kernel.IKernelConnection;
  private readonly _emit: (event: PanelEvent) => void;
  private readonly _respond: Respond;
  private readonly _hear: (message: unknown) => void;
  private readonly _calls: Calls;
  private readonly _answered = new Set<string>();
  private _comm: Kernel.IComm | null = null;
  private _own: Kernel.IComm | null = null;
  private _heard: Kernel.IComm | null = null;
  private _probed: Promise<boolean>;
  private _wasDown = false;
  private _isDisposed = false;
}

/** A kernel in one of these has lost its comms without closing them. */
const GONE: ReadonlySet<Kernel.Status> = new Set<Kernel.Status>([
  'restarting',
  'autorestarting',
  'terminating',
  'dead'
]);

const NOT_LOADED = 'The agent is not loaded in this kernel.';
const GONE_TEXT = 'The kernel was restarted or is gone.';
