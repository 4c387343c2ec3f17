/** The conversation of one kernel as it stands on this page: opened, kept up, opened again. */

import { EMPTY } from './conversation';
import type { IConversation } from './conversation';
import { opened, receive, settled, withEarlier } from './fold';
import { CallError } from './host';
import type { CallArgs, CallOp, CallResult, IEarlier } from './panel';
import { isRefused, parsePanel } from './parse';

/** So many turns are shown at first. */
export const TURNS = 30;

/**
 * Whether what is shown is live. `closed`: nobody opened it, or the kernel is gone. `busy`: the
 * kernel opens it when its cell is done. `failed`: `reason` is a sentence.
 */
export type FeedState =
  | { readonly is: 'closed' | 'opening' | 'open' | 'busy' }
  | { readonly is: 'failed'; readonly reason: string };

/** Asks the kernel; what it answers is narrowed. Rejects with a CallError. */
export type Ask = <T extends CallOp>(op: T, args: CallArgs<T>) => Promise<CallResult<T>>;

export class Feed {
  constructor(
    private readonly _ask: Ask,
    private readonly _onChange: () => void
  ) {}

  get conversation(): IConversation {
    return this._conversation;
  }

  get state(): FeedState {
    return this._state;
  }

  /** Ask for the conversation, unless that is under way; what is said meanwhile counts too. */
  async open(): Promise<void> {
    if (this._state.is === 'opening') {
      this._isWantedAgain = true;
      return;
    }
    this._isWantedAgain = false;
    const life = this._life;
    this._become({ is: 'opening' });
    const state = await this._ask('open', { turns: TURNS }).then(
      answer => {
        if (life === this._life) {
          this._conversation = opened(this._conversation, answer);
        }
        return { is: 'open' } as const;
      },
      (error: unknown) => describe(error)
    );
    if (life === this._life) {
      this._become(state);
      this._openAgain();
    }
  }

  /** Open it anew if something was missed meanwhile. */
  private _openAgain(): void {
    const isBehind = this._state.is === 'open' && this._conversation.isStale;
    if (this._isWantedAgain || isBehind) {
      void this.open();
    }
  }

  /** Take a message of items: each counts once, and a gap opens the conversation again. */
  hear(data: unknown): void {
    if (this._state.is === 'closed') {
      return;
    }
    const message = parsePanel(data);
    if (isRefused(message)) {
      console.error(`jupyter_ctx: ${message.reason}`);
      void this.open(); // what it said is missing now
      return;
    }
    this._conversation = receive(this._conversation, message);
    if (message.items.some(item => item.kind === 'cleared')) {
      this._conversation = { ...this._conversation, isStale: true };
    }
    this._onChange();
    if (this._conversation.isStale && this._state.is === 'open') {
      void this.open();
    }
  }

  /** Whether the kernel's extension was loaded anew since the conversation was opened. */
  isOf(epoch: string): boolean {
    return this._conversation.epoch === epoch;
  }

  /** Show the turns of an answer to `earlier` in front of those that are shown. */
  addEarlier(answer: IEarlier): void {
    this._conversation = withEarlier(this._conversation, answer);
    this._onChange();
  }

  /** The kernel is gone: what was shown stays, and nothing in it runs or asks any more. */
  lose(): void {
    this._life += 1;
    this._conversation = {
      ...settled(this._conversation),
      epoch: null,
      isStale: false,
      held: [],
      queue: [],
      question: null
    };
    this._become({ is: 'closed' });
  }

  /** Another kernel, another conversation: nothing is shown. */
  clear(): void {
    this.lose();
    this._conversation = EMPTY;
    this._onChange();
  }

  private _become(state: FeedState): void {
    this._state = state;
    this._onChange();
  }

  private _conversation: IConversation = EMPTY;
  private _state: FeedState = { is: 'closed' };
  private _life = 0;
  private _isWantedAgain = false;
}

function describe(error: unknown): FeedState {
  if (error instanceof CallError && error.kind === 'busy') {
    return { is: 'busy' };
  }
  const reason = error instanceof Error ? error.message : String(error);
  return { is: 'failed', reason };
}
