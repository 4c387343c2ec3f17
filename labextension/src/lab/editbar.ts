/** Above a notebook, where several edits are proposed at once: go through them, or answer all. */

import { Widget } from '@lumino/widgets';

import { element, onPerson } from './dom';

const UP = 'M4 10l4-4 4 4';
const DOWN = 'M4 6l4 4 4-4';

/** What the bar does. */
export interface IBarActs {
  step(by: 1 | -1): void;
  acceptAll(): void;
  rejectAll(): void;
}

/** How many there are, at which one is (from 1), and whether all may be answered now. */
export interface IBarState {
  readonly count: number;
  readonly at: number;
  readonly mayAccept: boolean;
  readonly mayReject: boolean;
}

export class EditBar extends Widget {
  constructor(acts: IBarActs) {
    super();
    this.addClass('jctx');
    this.addClass('jctx-editbar');
    this.node.setAttribute('role', 'toolbar');
    this.node.setAttribute('aria-label', 'Proposed edits');
    this.node.dataset['lmSuppressShortcuts'] = 'true';
    const title = element('span', 'grow');
    title.append(this._count, this._at);
    const previous = icon('Previous edit', UP);
    const next = icon('Next edit', DOWN);
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
    this.node.append(title, previous, next, this._reject, this._accept);
    this.hide();
  }

  /** Show the state; one edit needs no bar. */
  set state({ count, at, mayAccept, mayReject }: IBarState) {
    this._count.textContent = `${count} proposed edits`;
    this._at.textContent = ` ${at} of ${count}`;
    this._accept.ariaDisabled = String(!mayAccept);
    this._reject.ariaDisabled = String(!mayReject);
    this.setHidden(count < 2);
  }

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
