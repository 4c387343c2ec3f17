// @vitest-environment happy-dom
import { YNotebook } from '@jupyter/ydoc';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { ACT, act } from '../acts';
import { serveOutputs } from '../lab/outputs';

/** A notebook in the page, with cells a and b, each with a view and a button in it. */
class Page {
  readonly shared = new YNotebook({ disableDocumentWideUndoRedo: true });
  readonly node = document.createElement('div');
  readonly content = {
    activeCellIndex: 0,
    model: { readOnly: false, sharedModel: this.shared },
    widgets: [] as { node: HTMLElement; model: { id: string } }[],
    deselectAll: (): void => undefined,
    scrollToItem: (): Promise<void> => Promise.resolve()
  };

  constructor() {
    for (const id of ['a', 'b']) {
      const node = document.createElement('div');
      node.innerHTML = '<div class="view"><button></button></div>';
      this.node.append(node);
      this.content.widgets.push({ node, model: { id } });
      this.shared.addCell({ cell_type: 'code', id, source: id });
    }
    document.body.append(this.node);
  }

  view(at: number): HTMLElement {
    return this.node.querySelectorAll<HTMLElement>('.view')[at] as HTMLElement;
  }

  get sources(): string[] {
    return this.shared.cells.map(cell => cell.getSource());
  }
}

let pages: Page[] = [];

beforeAll(() => {
  serveOutputs({
    find: test => (pages as unknown as NotebookPanel[]).find(test)
  });
});

beforeEach(() => {
  document.body.replaceChildren();
  pages = [new Page(), new Page()];
});

/** Press the button of a view; `then` runs while the press is handled. */
function press(view: HTMLElement, isTrusted: boolean, then: () => void): void {
  const click = new MouseEvent('click', { bubbles: true });
  Object.defineProperty(click, 'isTrusted', { value: isTrusted });
  const button = view.querySelector('button') as HTMLElement;
  button.addEventListener('click', then, { once: true });
  button.dispatchEvent(click);
}

function first(): Page {
  return pages[0] as Page;
}

describe('what a view in an output asks for', () => {
  it('is done while a person presses something in it, below its own cell', () => {
    press(first().view(0), true, () => {
      expect(act(first().view(0), 'insert', 'x = 1\r\ny')).toBe(true);
    });
    expect(first().sources).toEqual(['a', 'x = 1\ny', 'b']);
    expect(first().content.activeCellIndex).toBe(1);
  });

  it('is not done when a script asks: by itself, by its own click, or after a click', () => {
    const view = first().view(0);
    const ask = (): void => {
      expect(act(view, 'insert', 'evil')).toBe(false);
      expect(act(view, 'open', 'b')).toBe(false);
    };
    ask();
    press(view, false, ask);
    press(view, true, () => undefined);
    ask();
    expect(first().sources).toEqual(['a', 'b']);
    expect(first().content.activeCellIndex).toBe(0);
    expect(act(view, 'look')).toBe(true);
  });

  it('is done in no other view or notebook than the one that is pressed', () => {
    const others = [first().view(1), (pages[1] as Page).view(0)];
    press(first().view(0), true, () => {
      expect(others.map(view => act(view, 'insert', 'evil'))).toEqual([false, false]);
    });
    expect(pages.map(page => page.sources)).toEqual([
      ['a', 'b'],
      ['a', 'b']
    ]);
  });

  it('is nothing where it has no shape, and no error either', () => {
    const wrong = [
      undefined,
      null,
      3,
      'insert',
      [],
      {},
      { op: 'insert' },
      { op: 'insert', text: null },
      { op: 'insert', text: { toString: () => 'evil' } },
      { op: '__proto__', text: 'x' },
      { op: 'constructor', text: 'x' },
      { op: ['insert'], text: 'x' },
      { op: 'open', text: 'nowhere' }
    ];
    const errors: unknown[] = [];
    const hear = (event: ErrorEvent): void => {
      errors.push(event.message);
    };
    window.addEventListener('error', hear);
    press(first().view(0), true, () => {
      const view = first().view(0);
      const events = wrong.map(
        detail => new CustomEvent(ACT, { bubbles: true, cancelable: true, detail })
      );
      for (const event of [...events, new Event(ACT, { bubbles: true, cancelable: true })]) {
        expect(view.dispatchEvent(event)).toBe(true);
      }
    });
    window.removeEventListener('error', hear);
    expect(errors).toEqual([]);
    expect(first().sources).toEqual(['a', 'b']);
  });
});
