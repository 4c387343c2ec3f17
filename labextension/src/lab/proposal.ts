/**
 * One proposed edit, drawn in its cell in place of the editor.
 *
 * An answer counts only if a person gave it: a trusted click or key, later than `INERT_MS` after
 * the difference that it answers came into sight. Where the cell has changed since, both are shown,
 * and the edit cannot be accepted: it would not be what is read.
 */

import type { EditorView } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';

import { countText, countWords, diffLines, makes } from '../edits';
import type { IProposal } from '../edits';
import { INERT_MS } from '../view/permission';
import type { IDecision } from './celledits';
import { element, keyed, onPerson } from './dom';
import { drawDiff } from './mergeview';

/** What a proposal asks of those around it. */
export interface IAround {
  decide(proposal: IProposal, decision: IDecision): void;
  /** Go to the next proposal (1) or the one before (-1). */
  step(from: IProposal, by: 1 | -1): void;
  /** Whether the person can read it may have changed. */
  touched(): void;
}

const REPLACED = 'jctx-in-review';

export class Proposal implements IDisposable {
  constructor(
    readonly cell: Cell,
    proposal: IProposal,
    private readonly _around: IAround
  ) {
    this._proposal = proposal;
    this._build();
    this.node.addEventListener('keydown', this);
    this._observer = new IntersectionObserver(entries => {
      this._isInSight = entries.some(entry => entry.isIntersecting);
      this._rest();
    });
    this._observer.observe(this._group);
    cell.model.sharedModel.changed.connect(this._refresh, this);
    this._refresh();
  }

  readonly node = element('div', 'jctx in-cell jctx-proposal');

  get proposal(): IProposal {
    return this._proposal;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get hasFocus(): boolean {
    return this.node.contains(document.activeElement);
  }

  /** Whether it stood in sight long enough, undecided. */
  get isReady(): boolean {
    return this._isReady && !this._decision;
  }

  /** Whether what is shown is what would be made of the cell as it stands. */
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

  /** Accept it as it is shown; does nothing where that may not be done. */
  accept(): void {
    if (this.isReady && this._isFresh && this._base !== null) {
      this._around.decide(this._proposal, { isAccepted: true, reason: '', base: this._base });
    }
  }

  reject(reason: string): void {
    if (this.isReady) {
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
    this.cell.model.sharedModel.changed.disconnect(this._refresh, this);
    this._view?.destroy();
    this.node.remove();
    this.cell.removeClass(REPLACED);
  }

  // What is shown -------------------------------------------------------------------------------

  private get _source(): string {
    return this.cell.model.sharedModel.getSource();
  }

  /** Compare with the cell as it stands, and draw what has changed. */
  private _refresh(): void {
    const { question, proposed } = this._proposal;
    const source = this._source;
    const isFresh = question
      ? makes(question.text, source, proposed)
      : this._base === null || this._base === source;
    const base = isFresh ? source : (this._base ?? source);
    const isOther = base !== this._base || proposed !== this._drawn || isFresh !== this._isFresh;
    this._isFresh = isFresh;
    if (base !== this._base || proposed !== this._drawn) {
      this._draw(base);
    }
    this._base = base;
    this._place();
    this._say();
    if (isOther) {
      this._rest();
      this._around.touched();
    }
  }

  private _draw(base: string): void {
    this._view?.destroy();
    this._drawn = this._proposal.proposed;
    this._view = drawDiff(this._lines, this.cell, base, this._drawn);
  }

  /** In place of the editor; where both are shown, or the input is hidden, below it. */
  private _place(): void {
    const { inputArea } = this.cell;
    const isInPlace = this._isFresh && inputArea !== null && !this.cell.inputHidden;
    this.cell.toggleClass(REPLACED, isInPlace);
    this.node.classList.toggle('jctx-below', !isInPlace);
    if (isInPlace) {
      if (this.node.parentNode !== inputArea.node) {
        inputArea.node.append(this.node);
      }
    } else {
      const wrapper = this.cell.node.querySelector(':scope > .jp-Cell-inputWrapper');
      if (wrapper && wrapper.nextSibling !== this.node) {
        wrapper.after(this.node);
      }
    }
  }

  private _say(): void {
    const name = nameOf(this.cell);
    const lines = diffLines(this._base ?? '', this._proposal.proposed);
    this._name.textContent = name;
    this._count.textContent = ` ${countText(lines)}, turn ${this._proposal.turn}`;
    const heard = name.replace(/^Cell/, 'cell');
    this._group.setAttribute('aria-label', `Proposed edit of ${heard}: ${countWords(lines)}`);
    this._stale.textContent = this._isFresh ? '' : `${name} changed since; showing both`;
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
        this._isReady = true;
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
      if (key === 'Enter') {
        this.reject(this._reason.value.trim());
      }
    };
  }

  private readonly _acts: Readonly<Record<string, () => void>> = {
    a: () => {
      this.accept();
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
    onPerson(this._acceptButton, () => {
      this.accept();
    });
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
  private _proposal: IProposal;
  private _decision: IDecision | null = null;
  private _view: EditorView | null = null;
  /** The old source that is drawn, and the new one; null: nothing is. */
  private _base: string | null = null;
  private _drawn: string | null = null;
  private _isFresh = false;
  private _isInSight = false;
  private _isReady = false;
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** Return what a person calls the cell: by its number, else by its place. */
export function nameOf(cell: Cell): string {
  const shared = cell.model.sharedModel;
  const { execution_count: count = null } = shared as { execution_count?: number | null };
  if (count !== null) {
    return `Cell ${count}`;
  }
  const cells = shared.notebook?.cells ?? [];
  return `Cell ${cells.findIndex(({ id }) => id === shared.id) + 1} of ${cells.length}`;
}
