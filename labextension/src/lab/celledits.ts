/** The edits of one notebook's cells: what the agent proposes, what it made, and the answers. */

import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

import { isAsShown, isStill, madeEdits, nextProposals } from '../edits';
import type { IMadeEdit, IProposal } from '../edits';
import { digestOf } from '../view/permission';
import type { IEdited } from './bridge';
import type { NotebookLink } from './link';

/** An answer of the person. `base` is the source that was shown as the old one, "" of a new cell. */
export interface IDecision {
  readonly isAccepted: boolean;
  readonly reason: string;
  readonly base: string;
}

/** An edit that was made here, with both sources, until the person takes the cell over. */
export interface IStanding extends IMadeEdit {
  readonly before: string | null;
  readonly after: string;
}

interface IOf<T> {
  readonly proposal: IProposal;
  readonly its: T;
}

/** What the kernel's link is asked for. */
export type Link = Pick<NotebookLink, 'ask' | 'feed' | 'feedChanged'>;

export class CellEdits implements IDisposable {
  /** `sourceOf` returns a cell's source as it stands, null if there is no such cell. */
  constructor(link: Link, sourceOf: (cellId: string) => string | null) {
    this._link = link;
    this._sourceOf = sourceOf;
    link.feedChanged.connect(this._update, this);
    this._update();
  }

  /** Every edit that is proposed and not decided by the kernel yet, in order. */
  get proposals(): readonly IProposal[] {
    return this._proposals;
  }

  /** Edits that were made here and stand, by cell. */
  get standing(): ReadonlyMap<string, IStanding> {
    return this._standing;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Return what was answered to a proposal, null if nothing was. */
  decisionOf({ toolUseId }: IProposal): IDecision | null {
    return this._decisions.get(toolUseId)?.its ?? null;
  }

  /** Return why the last answer to a proposal did not arrive, "" if it did. */
  faultOf({ toolUseId }: IProposal): string {
    return this._faults.get(toolUseId)?.its ?? '';
  }

  /** Answer a proposal; one that is not asked about yet is answered when it is. */
  decide(proposal: IProposal, decision: IDecision): void {
    this._decisions.set(proposal.toolUseId, { proposal, its: decision });
    this._faults.delete(proposal.toolUseId);
    this._send(proposal, decision);
    this._changed.emit();
  }

  /** Tell the kernel that the person can see the question, once. */
  show({ question }: IProposal): void {
    if (!question || this._shown === question.id) {
      return;
    }
    this._shown = question.id;
    this._link.ask('seen', { question: question.id }).catch((error: unknown) => {
      console.warn('jupyter_ctx: the kernel was not told that its question is seen', error);
    });
  }

  /** Undo an edit that stands. Rejects with a CallError that says why not. */
  async undo({ toolUseId }: IMadeEdit): Promise<void> {
    await this._link.ask('undo_edit', { tool_use_id: toolUseId });
  }

  /** The bridge has changed a cell: the call that did it is told of afterwards. */
  take(edited: IEdited): void {
    this._earlier.set(edited.cellId, new Set(this._known));
    this._edited.set(edited.cellId, edited);
    this._drop(edited.cellId);
    this._changed.emit();
  }

  /** The person has taken the cell over: the edit is no longer pointed out. */
  release(cellId: string): void {
    this._edited.delete(cellId);
    if (this._drop(cellId)) {
      this._changed.emit();
    }
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._link.feedChanged.disconnect(this._update, this);
      Signal.clearData(this);
    }
  }

  private _update(): void {
    const { conversation } = this._link.feed;
    const before = this._proposals;
    this._proposals = nextProposals(before, conversation);
    this._forget();
    for (const proposal of this._proposals) {
      const decision = this._decisions.get(proposal.toolUseId);
      if (decision && proposal.question) {
        this._keepWord(proposal, decision.its);
      }
    }
    const made = madeEdits(conversation);
    if (made !== this._made) {
      this._made = made;
      for (const { toolUseId } of made.values()) {
        this._known.add(toolUseId);
      }
    }
    const stood = this._standing;
    this._standing = this._stands();
    if (before !== this._proposals || !isSame(stood, this._standing)) {
      this._changed.emit();
    }
  }

  /** What is not proposed any more was answered, by whomever; of another change it was never. */
  private _forget(): void {
    const open = new Map(this._proposals.map(one => [one.toolUseId, one]));
    for (const kept of [this._decisions, this._faults]) {
      for (const [toolUseId, { proposal }] of kept) {
        const now = open.get(toolUseId);
        if (!now || !isStill(proposal, now)) {
          kept.delete(toolUseId);
        }
      }
    }
  }

  /** What was accepted before it was asked about counts only if it is still what was shown. */
  private _keepWord(proposal: IProposal, decision: IDecision): void {
    const { question, cellId } = proposal;
    if (!question || this._sent.has(question.id)) {
      return;
    }
    const isSame = cellId === null || this._sourceOf(cellId) === decision.base;
    const isShown = isSame && isAsShown(proposal, this._sourceOf);
    if (decision.isAccepted && !isShown) {
      this._decisions.delete(proposal.toolUseId);
      this._changed.emit();
    } else {
      this._send(proposal, decision);
    }
  }

  private _send(proposal: IProposal, decision: IDecision): void {
    const { question, toolUseId } = proposal;
    if (!question) {
      return;
    }
    const { id } = question;
    this._sent.add(id);
    const given = { proposal, its: decision };
    this._decisions.set(toolUseId, given);
    const choice = decision.isAccepted ? 'once' : 'deny';
    const { reason } = decision;
    const answer = { question: id, sha256: digestOf(question), choice, word: '', reason } as const;
    this._link.ask('decide', answer).catch((error: unknown) => {
      this._sent.delete(id);
      if (this._decisions.get(toolUseId) === given) {
        const its = error instanceof Error ? error.message : String(error);
        this._decisions.delete(toolUseId);
        this._faults.set(toolUseId, { proposal, its });
        this._changed.emit();
      }
    });
  }

  private _stands(): ReadonlyMap<string, IStanding> {
    const standing = new Map<string, IStanding>();
    for (const [cellId, { before, after }] of this._edited) {
      const made = this._made.get(cellId);
      if (made && !this._earlier.get(cellId)?.has(made.toolUseId)) {
        const stood = this._standing.get(cellId);
        const isSame = stood?.toolUseId === made.toolUseId;
        standing.set(cellId, isSame ? stood : { ...made, before, after });
      }
    }
    return standing;
  }

  private _drop(cellId: string): boolean {
    const isThere = this._standing.has(cellId);
    if (isThere) {
      this._standing = new Map([...this._standing].filter(([id]) => id !== cellId));
    }
    return isThere;
  }

  private readonly _link: Link;
  private readonly _sourceOf: (cellId: string) => string | null;
  private readonly _changed = new Signal<this, void>(this);
  /** By call, each with the proposal as it was then. */
  private readonly _decisions = new Map<string, IOf<IDecision>>();
  private readonly _faults = new Map<string, IOf<string>>();
  private readonly _sent = new Set<string>();
  private readonly _edited = new Map<string, IEdited>();
  /** Calls that have made an edit; by cell, those that had when the bridge changed it last. */
  private readonly _known = new Set<string>();
  private readonly _earlier = new Map<string, ReadonlySet<string>>();
  private _made: ReadonlyMap<string, IMadeEdit> = new Map();
  private _standing: ReadonlyMap<string, IStanding> = new Map();
  private _proposals: readonly IProposal[] = [];
  private _shown: string | null = null;
  private _isDisposed = false;
}

function isSame(
  one: ReadonlyMap<string, IStanding>,
  other: ReadonlyMap<string, IStanding>
): boolean {
  const ids = (map: ReadonlyMap<string, IStanding>): string =>
    [...map.values()].map(({ cellId, toolUseId }) => `${cellId} ${toolUseId}`).join('\n');
  return ids(one) === ids(other);
}
