/**
 * One proposed change, drawn in the notebook: its head with the answers, and its lines.
 *
 * An answer counts only if a person gave it: a trusted click or key, later than `INERT_MS` after
 * the lines that it answers came into sight. Where the notebook has changed since, both are shown,
 * and the change cannot be accepted: it would not be what is read.
 */

import type { EditorView } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';

import { isAsShown } from '../edits';
import type { IProposal } from '../edits';
import { INERT_MS } from '../view/permission';
import type { IDecision } from './celledits';
import { element, keyed, onPerson } from './dom';
import type { IForm } from './forms';

/** What a proposal asks of those around it. */
export interface IAround {
  decide(proposal: IProposal, decision: IDecision): void;
  /** Return a cell's source as it stands, null if there is no such cell. */
  sourceOf(cellId: string): string | null;
  /** Go to the next proposal (1) or the one before (-1). */
  step(from: IProposal, by: 1 | -1): void;
  /** Whether the person can read it may have changed. */
  touched(): void;
}

export class Proposal implements IDisposable {
  constructor(
    readonly form: IForm,
    proposal: IProposal,
    private readonly _around: IAround
  ) {
    this._proposal = proposal;
    this._build();
    this.node.addEventListener('keydown', this);
    this._observer = new IntersectionObserver(entries => {
      this._isInSight = entries.some(entry => entry.isIntersecting);
      this._rest();
      this._around.touched();
    });
    this._observer.observe(this._group);
    this._watched = form.watched.map(({ model }) => model.sharedModel);
    for (const shared of this._watched) {
      shared.changed.connect(this._refresh, this);
    }
    this._refresh();
  }

  readonly node = element('div', 'jctx in-cell jctx-proposal');

  get proposal(): IProposal {
    return this._proposal;
  }

  /** The cell in which it is drawn. */
  get cell(): Cell {
    return this.form.host;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get hasFocus(): boolean {
    return this.node.contains(document.activeElement);
  }

  /** Whether it is known to be scrolled out of sight. */
  get isOutOfSight(): boolean {
    return this._isInSight === false;
  }

  /** Whether it stood in sight long enough, undecided. */
  get isReady(): boolean {
    return this._isReady && !this._decision;
  }

  /** Whether what is shown now was in sight long enough, now or before. */
  get isRead(): boolean {
    return this._isRead && !this._decision;
  }

  /** Whether what is shown is what would be made of the notebook as it stands. */
  get isFresh(): boolean {
    return this._isFresh;
  }

  focus(): void {
    this._group.focus({ preventScroll: true });
    this.node.scrollIntoView({ block: 'nearest' });
  }

  /** The proposal as it is now: asked about or not, decided or not. */
  update(proposal: IProposal, decision: IDecision | null, fault: string): void {
    this._proposal = proposal;
    this._decision = decision;
    this._fault.textContent = fault;
    this._refresh();
  }

  /** Accept it as it is shown, where it was read and still stands so. */
  accept(): void {
    if (this.isRead && this._isFresh && this._base !== null) {
      this._around.decide(this._proposal, { isAccepted: true, reason: '', base: this._base });
    }
  }

  reject(reason: string): void {
    if (!this._decision) {
      const base = this._base ?? this._source;
      this._around.decide(this._proposal, { isAccepted: false, reason, base });
    }
  }

  handleEvent(event: Event): void {
    if (!(event instanceof KeyboardEvent)) {
      return;
    }
    event.stopPropagation(); // the notebook takes the focus at any key
    const isWriting = event.target === this._reason;
    if (isWriting ? event.key !== 'Enter' && event.key !== 'Escape' : !keyed(event)) {
      return;
    }
    const act = isWriting ? this._whileDenying(event.key) : this._acts[event.key.toLowerCase()];
    if (act) {
      event.preventDefault();
      if (event.isTrusted && !event.repeat) {
        act();
      }
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._observer.disconnect();
    for (const shared of this._watched) {
      shared.changed.disconnect(this._refresh, this);
    }
    this._view?.destroy();
    this.node.remove();
    this.form.clear();
  }

  // What is shown -------------------------------------------------------------------------------

  private get _source(): string {
    const { cellId } = this._proposal;
    return cellId === null ? '' : (this._around.sourceOf(cellId) ?? '');
  }

  /** Compare with the notebook as it stands, and draw what has changed. */
  private _refresh(): void {
    const { _proposal: proposal, _base: shown, _source: source } = this;
    const isSame = proposal.question !== null || shown === null || shown === source;
    const isFresh = isSame && isAsShown(proposal, this._around.sourceOf);
    const base = isFresh ? source : (shown ?? source);
    const isOther = base !== shown || isFresh !== this._isFresh;
    this._isFresh = isFresh;
    if (base !== shown) {
      this._view?.destroy();
      this._view = this.form.draw(this._lines, base);
    }
    this._base = base;
    this.form.place(this.node, isFresh);
    this._say(base);
    if (isOther) {
      this._isRead = false;
      this._rest();
      this._around.touched();
    }
  }

  private _say(base: string): void {
    const { title, detail, label, stale } = this.form.words(base);
    this._name.textContent = title;
    this._count.textContent = ` ${detail}turn ${this._proposal.turn}`;
    this._group.setAttribute('aria-label', label);
    this._stale.textContent = this._isFresh ? '' : stale;
    const decision = this._decision;
    this._done.textContent = !decision ? '' : decision.isAccepted ? 'Accepted' : 'Rejected';
    this._acceptButton.hidden = this._rejectButton.hidden = decision !== null;
    this._denying.hidden ||= decision !== null;
    this._enable();
  }

  // Answers --------------------------------------------------------------------------------------

  /** What is shown is new, or in sight anew: no answer counts for a while. */
  private _rest(): void {
    clearTimeout(this._timer);
    this._isReady = false;
    this._enable();
    if (this._isInSight && !this._isDisposed) {
      this._timer = setTimeout(() => {
        this._isReady = this._isRead = true;
        this._enable();
        this._around.touched();
      }, INERT_MS);
    }
  }

  private _enable(): void {
    const isStale = !this._isFresh;
    this._acceptButton.setAttribute('aria-disabled', String(!this._isReady || isStale));
    this._rejectButton.setAttribute('aria-disabled', String(!this._isReady));
    this._acceptButton.classList.toggle('jctx-off', isStale);
  }

  /** By its own button or key: only while it is in sight. */
  private readonly _accept = (): void => {
    if (this.isReady) {
      this.accept();
    }
  };

  private _ask(): void {
    if (this.isReady) {
      this._denying.hidden = false;
      this._reason.focus();
    }
  }

  private _whileDenying(key: string): () => void {
    return () => {
      this._denying.hidden = true;
      this._group.focus({ preventScroll: true });
      if (key === 'Enter' && this.isReady) {
        this.reject(this._reason.value.trim());
      }
    };
  }

  private readonly _acts: Readonly<Record<string, () => void>> = {
    a: () => {
      this._accept();
    },
    r: () => {
      this._ask();
    },
    j: () => {
      this._around.step(this._proposal, 1);
    },
    k: () => {
      this._around.step(this._proposal, -1);
    }
  };

  private _build(): void {
    const head = element('div', 'top');
    const title = element('span', 'grow');
    title.append(this._name, this._count);
    this._rejectButton.append('Reject ', element('kbd', '', 'R'));
    this._rejectButton.setAttribute('aria-keyshortcuts', 'R');
    this._acceptButton.append('Accept ', element('kbd', '', 'A'));
    this._acceptButton.setAttribute('aria-keyshortcuts', 'A');
    onPerson(this._acceptButton, this._accept);
    onPerson(this._rejectButton, () => {
      this._ask();
    });
    head.append(title, this._done, this._rejectButton, this._acceptButton);
    this._reason.placeholder = 'Why, for the agent (optional)';
    this._reason.setAttribute('aria-label', 'Why it is rejected (optional)');
    const send = element('button', 'plain', 'Reject');
    onPerson(send, this._whileDenying('Enter'));
    const back = element('button', 'text', 'Cancel');
    onPerson(back, this._whileDenying('Escape'));
    this._denying.hidden = true;
    this._denying.append(this._reason, send, back);
    this._group.tabIndex = 0;
    this._group.setAttribute('role', 'group');
    this._fault.setAttribute('role', 'alert');
    this._stale.setAttribute('role', 'status');
    this._group.append(head, this._denying, this._fault, this._stale, this._lines);
    this.node.dataset['lmSuppressShortcuts'] = 'true';
    this.node.append(this._group);
  }

  private readonly _group = element('div', 'jctx-diff');
  private readonly _name = element('b');
  private readonly _count = element('span', 'quiet');
  private readonly _done = element('span', 'quiet');
  private readonly _acceptButton = element('button', 'primary');
  private readonly _rejectButton = element('button', 'plain');
  private readonly _denying = element('div', 'deny');
  private readonly _reason = element('input', '');
  private readonly _fault = element('div', 'say');
  private readonly _stale = element('div', 'say');
  private readonly _lines = element('div', 'lines');
  private readonly _observer: IntersectionObserver;
  /** Kept, since a cell's widget that is disposed has no model any more. */
  private readonly _watched: readonly Cell['model']['sharedModel'][];
  private _proposal: IProposal;
  private _decision: IDecision | null = null;
  private _view: EditorView | null = null;
  /** The old source that is drawn; null: nothing is. */
  private _base: string | null = null;
  private _isFresh = false;
  /** null: not known yet. */
  private _isInSight: boolean | null = null;
  private _isReady = false;
  private _isRead = false;
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
