/** Drawings of the host in nodes of the view: one at a time, the newest text last, never half. */

import * as React from 'react';

type Draw = (text: string, node: HTMLElement) => Promise<void> | void;

class Drawing {
  constructor(
    private readonly _node: HTMLElement,
    private readonly _draw: () => Draw
  ) {}

  /** Draw `text`, once what is being drawn is done. */
  want(text: string): void {
    this._wanted = text;
    if (!this._isBusy) {
      this._go();
    }
  }

  dispose(): void {
    this._isGone = true;
  }

  /** Draws beside the page and puts it there whole, so that nothing is seen half drawn. */
  private _go(): void {
    const text = this._wanted;
    if (this._isGone || text === null || text === this._drawn) {
      return;
    }
    const buffer = this._node.cloneNode(false) as HTMLElement;
    const settle = (): void => {
      this._isBusy = false;
      this._drawn = text;
      if (!this._isGone) {
        this._node.replaceChildren(...buffer.childNodes);
        this._go();
      }
    };
    const fail = (): void => {
      buffer.textContent = text; // what cannot be drawn is read as it is
      settle();
    };
    this._isBusy = true;
    try {
      const drawing = this._draw()(text, buffer);
      if (drawing) {
        drawing.then(settle, fail);
      } else {
        settle();
      }
    } catch {
      fail();
    }
  }

  private _wanted: string | null = null;
  private _drawn: string | null = null;
  private _isBusy = false;
  private _isGone = false;
}

/** Return a ref: its node shows `text` as `draw` draws it. React puts no children into it. */
export function useDrawing<T extends HTMLElement>(text: string, draw: Draw): React.RefObject<T> {
  const node = React.useRef<T>(null);
  const newest = React.useRef(draw);
  const drawing = React.useRef<Drawing | null>(null);
  React.useLayoutEffect(() => {
    newest.current = draw;
  });
  React.useLayoutEffect(() => {
    if (!node.current) {
      return;
    }
    const made = new Drawing(node.current, () => newest.current);
    drawing.current = made;
    return () => {
      made.dispose();
    };
  }, []);
  React.useLayoutEffect(() => {
    drawing.current?.want(text);
  }, [text]);
  return node;
}
