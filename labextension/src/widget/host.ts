/** What the view asks of the page, where that is a cell's output and nothing is known around it. */

import { act } from '../acts';
import type { IHost } from '../host';
import type { IDisposable } from '../view/frame';
import { highlight } from './highlight';
import { drawMarkdown } from './markdown';
import { drawOutputs } from './outputs';

type Call = (op: string, args: Readonly<Record<string, unknown>>) => Promise<unknown>;

/** Cells are reached where the page hears what is asked for (`acts.ts`); elsewhere nothing is offered. */
export class OutputHost implements IHost {
  /** `node` is the view's own element. */
  constructor(
    private readonly _call: Call,
    private readonly _node: HTMLElement
  ) {}

  /** Whether there is a page around that puts cells in and shows them; asked until it says so. */
  get reachesCells(): boolean {
    this._reaches ||= this._node.isConnected && act(this._node, 'look');
    return this._reaches;
  }

  renderMarkdown(text: string, node: HTMLElement): Promise<void> {
    drawMarkdown(text, node);
    return Promise.resolve();
  }

  highlight(code: string, language: string, node: HTMLElement): void {
    highlight(code, language, node);
  }

  renderOutputs(outputs: readonly unknown[], node: HTMLElement): IDisposable {
    drawOutputs(outputs, node);
    return {
      dispose: () => {
        node.replaceChildren();
      }
    };
  }

  call(op: string, args: Readonly<Record<string, unknown>>): Promise<unknown> {
    return this._call(op, args);
  }

  copy(text: string): Promise<void> {
    return navigator.clipboard.writeText(text);
  }

  insertBelow(code: string): void {
    act(this._node, 'insert', code);
  }

  replaceCell(): void {
    // not offered: the cell in use is the one that this stands in
  }

  openCell(id: string): void {
    act(this._node, 'open', id);
  }

  now(): number {
    return Date.now();
  }

  private _reaches = false;
}
