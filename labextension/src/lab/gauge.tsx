/** The gauge in Lab's status bar, and the breakdown that opens above it. */

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import { Breakdown } from '../view/breakdown';
import { Gauge } from '../view/gauge';
import type { CurrentNotebook } from './current';

export type GaugeDisplay = 'full' | 'number' | 'hidden';

/** Space between the status bar and the breakdown, and to the window's edges; pixels. */
const MARGIN = 4;

export class GaugeItem extends ReactWidget {
  constructor(current: CurrentNotebook) {
    super();
    this.addClass('jctx');
    this.addClass('jctx-status');
    this._current = current;
    current.changed.connect(this._onChange, this);
  }

  /** Whether there is something to show. */
  get isActive(): boolean {
    return this._display !== 'hidden' && this._current.state.link !== 'absent';
  }

  /** Fired when `isActive` may have changed. */
  get activeChanged(): ISignal<this, void> {
    return this._activeChanged;
  }

  set display(display: GaugeDisplay) {
    this._display = display;
    this._onChange();
  }

  override dispose(): void {
    this._close(false);
    this._current.changed.disconnect(this._onChange, this);
    super.dispose();
  }

  protected override render(): React.ReactElement {
    return (
      <Gauge
        state={this._current.state}
        showBar={this._display === 'full'}
        isOpen={this._popover !== null}
        onToggle={this._toggle}
      />
    );
  }

  private readonly _toggle = (): void => {
    if (this._popover) {
      this._close(true);
    } else {
      this._popover = new GaugePopover(this._current, this, () => {
        this._close(true);
      });
      this.update();
    }
  };

  private _close(refocus: boolean): void {
    if (!this._popover) {
      return;
    }
    const hadFocus = this._popover.node.contains(document.activeElement);
    this._popover.dispose();
    this._popover = null;
    this.update();
    if (refocus && hadFocus) {
      this.node.querySelector('button')?.focus();
    }
  }

  private _onChange(): void {
    if (!this.isActive) {
      this._close(false);
    }
    this._activeChanged.emit();
    this.update();
  }

  private readonly _current: CurrentNotebook;
  private readonly _activeChanged = new Signal<this, void>(this);
  private _display: GaugeDisplay = 'full';
  private _popover: GaugePopover | null = null;
}

/** The breakdown: a dialog above its anchor, closed by Escape or a click elsewhere. */
class GaugePopover extends ReactWidget {
  constructor(current: CurrentNotebook, anchor: Widget, close: () => void) {
    super();
    this.addClass('jctx');
    this.addClass('jctx-popover');
    this.addClass('jp-ThemedContainer');
    this._current = current;
    this._anchor = anchor;
    this._closeIt = close;
    current.changed.connect(this.update, this);
    Widget.attach(this, document.body);
    this._place();
  }

  override dispose(): void {
    this._current.changed.disconnect(this.update, this);
    super.dispose();
  }

  handleEvent(event: Event): void {
    if (event instanceof KeyboardEvent) {
      if (event.key === 'Escape' && this._hasFocus()) {
        event.preventDefault();
        event.stopPropagation();
        this._closeIt();
      }
    } else if (event.target instanceof Node && !this._contains(event.target)) {
      this._closeIt();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    document.addEventListener('pointerdown', this, true);
    document.addEventListener('keydown', this, true);
    // The anchor moves with the window, and with its neighbours in the status bar.
    for (const moved of [document.body, this._anchor.node.parentElement]) {
      if (moved) {
        this._observer.observe(moved);
      }
    }
  }

  protected override onBeforeDetach(message: Message): void {
    super.onBeforeDetach(message);
    document.removeEventListener('pointerdown', this, true);
    document.removeEventListener('keydown', this, true);
    this._observer.disconnect();
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    this._place();
  }

  protected override render(): React.ReactElement {
    return <Breakdown state={this._current.state} takeFocus />;
  }

  /** Elsewhere Escape belongs to whatever has the focus: a cell being edited, another dialog. */
  private _hasFocus(): boolean {
    const focused = document.activeElement;
    return focused === null || focused === document.body || this._contains(focused);
  }

  private _contains(target: Node): boolean {
    return this.node.contains(target) || this._anchor.node.contains(target);
  }

  /** Above the anchor, its right edge on the anchor's, within the window. */
  private _place(): void {
    const anchor = this._anchor.node.getBoundingClientRect();
    const right = Math.max(MARGIN, window.innerWidth - anchor.right);
    Object.assign(this.node.style, {
      right: `${right}px`,
      bottom: `${window.innerHeight - anchor.top + MARGIN}px`,
      maxHeight: `${anchor.top - 2 * MARGIN}px`,
      maxWidth: `${window.innerWidth - right - MARGIN}px`
    });
  }

  private readonly _current: CurrentNotebook;
  private readonly _anchor: Widget;
  private readonly _closeIt: () => void;
  private readonly _observer = new ResizeObserver(() => {
    this._place();
  });
}
