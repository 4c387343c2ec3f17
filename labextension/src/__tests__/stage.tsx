/** Mounts the view in a page without a browser: a host that notes what it is asked, time by hand. */

import * as React from 'react';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import type { Root } from 'react-dom/client';
import { vi } from 'vitest';

import { EMPTY } from '../conversation';
import type { IConversation } from '../conversation';
import type { IHost } from '../host';
import type { ISession } from '../panel';
import { ABSENT } from '../state';
import { NO_ACTIONS, Panel } from '../view/panel';
import type { IActions, IPanelHandle } from '../view/panel';

export const SESSION: ISession = {
  kind: 'session',
  id: 's',
  title: 'Churn by cohort',
  notebook: 'churn.ipynb',
  model: 'demo',
  permission_mode: 'ask',
  is_demo: false,
  why: '',
  turns: 0,
  cells: 9,
  variables: 12
};

export const BEGUN: IConversation = { ...EMPTY, epoch: 'e', session: SESSION };

interface ICall {
  readonly op: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** `answers`: what a call of that name resolves with, or the error it rejects with. */
export class StageHost implements IHost {
  readonly calls: ICall[] = [];
  readonly drawn: string[] = [];
  readonly rendered: (readonly unknown[])[] = [];
  readonly copied: string[] = [];
  readonly inserted: string[] = [];
  readonly answers = new Map<string, unknown>([
    ['estimate', { tokens: 5, mentions: 0 }],
    ['complete', { from: 0, items: [] }],
    ['outputs', { outputs: [] }]
  ]);

  renderMarkdown(text: string, node: HTMLElement): Promise<void> {
    this.drawn.push(text);
    node.textContent = text;
    return Promise.resolve();
  }

  highlight(code: string, _language: string, node: HTMLElement): void {
    node.textContent = code;
  }

  renderOutputs(outputs: readonly unknown[]): { dispose(): void } {
    this.rendered.push(outputs);
    return { dispose: () => undefined };
  }

  call(op: string, args: Readonly<Record<string, unknown>>): Promise<unknown> {
    this.calls.push({ op, args });
    const answer = this.answers.get(op) ?? {};
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }

  copy(text: string): Promise<void> {
    this.copied.push(text);
    return Promise.resolve();
  }

  insertBelow(code: string): void {
    this.inserted.push(code);
  }

  replaceCell(): void {
    // not asked for here
  }

  openCell(): void {
    // not asked for here
  }

  now(): number {
    return Date.now();
  }

  /** The arguments of every call of one name. */
  told(op: string): Readonly<Record<string, unknown>>[] {
    return this.calls.filter(call => call.op === op).map(call => call.args);
  }
}

/** Tells at once that what is observed is seen. */
class Seen {
  constructor(private readonly _tell: (entries: { isIntersecting: boolean }[]) => void) {}
  observe(): void {
    this._tell([{ isIntersecting: true }]);
  }
  disconnect(): void {
    // nothing is kept
  }
}

export class Stage {
  readonly host = new StageHost();
  readonly handle = React.createRef<IPanelHandle>();
  readonly node: HTMLElement;
  actions: IActions = NO_ACTIONS;

  constructor() {
    vi.useFakeTimers();
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    vi.stubGlobal('IntersectionObserver', Seen);
    this.node = document.createElement('div');
    document.body.append(this.node);
    this._root = createRoot(this.node);
  }

  /** Show a conversation, and let one frame pass. */
  async show(conversation: IConversation): Promise<void> {
    await act(async () => {
      this._root.render(
        <Panel
          ref={this.handle}
          conversation={conversation}
          panelState={ABSENT}
          host={this.host}
          actions={this.actions}
        />
      );
      await Promise.resolve();
    });
    await this.pass(17);
  }

  /** Let so many milliseconds pass. */
  async pass(ms: number): Promise<void> {
    await act(async () => {
      await vi.advanceTimersByTimeAsync(ms);
    });
  }

  /** Do something that changes the view. */
  async act(change: () => void): Promise<void> {
    await act(async () => {
      change();
      await Promise.resolve();
    });
  }

  end(): void {
    act(() => {
      this._root.unmount();
    });
    this.node.remove();
    vi.unstubAllGlobals();
    vi.useRealTimers();
  }

  find(selector: string): HTMLElement {
    const found = this.node.querySelector<HTMLElement>(selector);
    if (!found) {
      throw new Error(`there is no ${selector}`);
    }
    return found;
  }

  all(selector: string): HTMLElement[] {
    return [...this.node.querySelectorAll<HTMLElement>(selector)];
  }

  /** The button with these words, or this label. */
  button(name: string): HTMLButtonElement {
    const found = this.all('button').find(
      button =>
        button.getAttribute('aria-label') === name || button.textContent.trim().startsWith(name)
    );
    if (!found) {
      throw new Error(`there is no button ${name}`);
    }
    return found as HTMLButtonElement;
  }

  get prompt(): HTMLTextAreaElement {
    return this.find('.jctx-box textarea') as HTMLTextAreaElement;
  }

  /** A click; one that scripts make is not trusted. */
  async click(target: HTMLElement, isTrusted = true): Promise<void> {
    await this.send(
      target,
      new MouseEvent('click', { bubbles: true, cancelable: true }),
      isTrusted
    );
  }

  async press(
    target: HTMLElement,
    key: string,
    init: KeyboardEventInit = {},
    isTrusted = true
  ): Promise<boolean> {
    const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...init });
    await this.send(target, event, isTrusted);
    return event.defaultPrevented;
  }

  async send(target: HTMLElement, event: Event, isTrusted = true): Promise<void> {
    Object.defineProperty(event, 'isTrusted', { value: isTrusted });
    await act(async () => {
      target.dispatchEvent(event);
      await Promise.resolve();
    });
  }

  /** Type into the prompt, as a person would: the text is there, then it is told. */
  async type(
    text: string,
    target: HTMLTextAreaElement | HTMLInputElement = this.prompt
  ): Promise<void> {
    const kind = target instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, 'value')?.set?.call(target, text);
    target.setSelectionRange(text.length, text.length);
    await this.send(target, new Event('input', { bubbles: true }));
  }

  private readonly _root: Root;
}
