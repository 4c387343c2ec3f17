/** Above a notebook, where several changes are proposed at once: go through them, or answer all. */

import { Widget } from '@lumino/widgets';

import { INERT_MS } from '../view/permission';
import { element, keyed, onPerson } from './dom';

const UP = 'M4 10l4-4 4 4';
const DOWN = 'M4 6l4 4 4-4';

/** What the bar does. */
export interface IBarActs {
  step(by: 1 | -1): void;
  acceptAll(): void;
  rejectAll(): void;
}

/** Which there are, at which one is (from 1), and whether all may be accepted: each was read. */
export interface IBarState {
  readonly ids: readonly string[];
  readonly at: number;
  /** Whether the bar is to be seen: one change that stands in sight needs none. */
  readonly isNeeded: boolean;
  readonly mayAccept: boolean;
}

/** A press counts only later than `INERT_MS` after the bar came into sight, or one more change. */
export class EditBar extends Widget {
  constructor(acts: IBarActs) {
    super();
    this.addClass('jctx');
    this.addClass('jctx-editbar');
    this.node.setAttribute('role', 'toolbar');
    this.node.setAttribute('aria-label', 'Proposed changes');
    this.node.dataset['lmSuppressShortcuts'] = 'true';
    const title = element('span', 'grow');
    title.append(this._count, this._at);
    const previous = icon('Previous change', UP);
    const next = icon('Next change', DOWN);
    onPerson(previous, () => {
      acts.step(-1);
    });
    onPerson(next, () => {
      acts.step(1);
    });
    onPerson(this._reject, () => {
      if (this._reject.ariaDisabled !== 'true') {
        acts.rejectAll();
      }
    });
    onPerson(this._accept, () => {
      if (this._accept.ariaDisabled !== 'true') {
        acts.acceptAll();
      }
    });
    this.node.addEventListener('keydown', event => {
      const by = { j: 1, k: -1 }[event.key.toLowerCase()] as 1 | -1 | undefined;
      if (by && keyed(event)) {
        event.preventDefault();
        acts.step(by);
      }
    });
    this.node.append(title, previous, next, this._reject, this._accept);
    this._observer = new IntersectionObserver(entries => {
      this._isInSight = entries.some(entry => entry.isIntersecting);
      this._rest();
    });
    this._observer.observe(this.node);
    this.hide();
  }

  set state(state: IBarState) {
    const { ids, at, isNeeded } = state;
    const isNew = ids.some(id => !this._state.ids.includes(id));
    this._state = state;
    this._count.textContent =
      ids.length === 1 ? '1 proposed change' : `${ids.length} proposed changes`;
    this._at.textContent = ids.length === 1 ? '' : ` ${at} of ${ids.length}`;
    this.setHidden(!isNeeded);
    if (isNew) {
      this._rest();
    } else {
      this._enable();
    }
  }

  override dispose(): void {
    clearTimeout(this._timer);
    this._observer.disconnect();
    super.dispose();
  }

  private _rest(): void {
    clearTimeout(this._timer);
    this._isReady = false;
    this._enable();
    if (this._isInSight) {
      this._timer = setTimeout(() => {
        this._isReady = true;
        this._enable();
      }, INERT_MS);
    }
  }

  private _enable(): void {
    const { mayAccept } = this._state;
    this._accept.ariaDisabled = String(!this._isReady || !mayAccept);
    this._reject.ariaDisabled = String(!this._isReady);
    this._accept.classList.toggle('jctx-off', !mayAccept);
    this._accept.title = mayAccept ? '' : 'Look at each change first';
  }

  private _state: IBarState = { ids: [], at: 0, isNeeded: false, mayAccept: false };
  private _isInSight = false;
  private _isReady = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _observer: IntersectionObserver;
  private readonly _count = element('b');
  private readonly _at = element('span', 'quiet');
  private readonly _reject = element('button', 'plain', 'Reject all');
  private readonly _accept = element('button', 'plain', 'Accept all');
}

function icon(label: string, path: string): HTMLButtonElement {
  const button = element('button', 'icon');
  button.setAttribute('aria-label', label);
  button.title = label;
  const space = 'http://www.w3.org/2000/svg';
  const drawing = document.createElementNS(space, 'svg');
  drawing.setAttribute('viewBox', '0 0 16 16');
  drawing.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(space, 'path');
  line.setAttribute('d', path);
  drawing.append(line);
  button.append(drawing);
  return button;
}
