/** What every part of the view may ask for, without handing it down. */

import * as React from 'react';

import type { IHost } from '../host';
import type { CallArgs, CallOp, CallResult } from '../panel';

/** Something a person may start from the panel, given by the mount. */
export interface IAction {
  readonly label: string;
  readonly run: () => void;
}

/** Why there is nothing to talk to, and what to do about it; in place of the conversation. */
export interface IFault {
  readonly title: string;
  readonly text: string;
  /** A line to type in a terminal or a cell, "" if there is none. */
  readonly command?: string;
  readonly buttons?: readonly IAction[];
  /** Whether it failed, rather than waits: a red bar, announced at once. */
  readonly isError?: boolean;
}

/** What the place in which the panel stands offers, and how its settings are. */
export interface IActions {
  /** "Replace cell 5"; null where there is no cell to replace. */
  readonly replaceLabel: string | null;
  /** Whether there is a notebook to put a cell into. */
  readonly canInsert: boolean;
  /** Whether a cell of the notebook can be shown. */
  readonly canOpen: boolean;
  /** Further entries of the menu behind ⋯. */
  readonly menu: readonly IAction[];
  /** Prompts to begin with; what fits the notebook. */
  readonly examples: readonly string[];
  /** Which key sends; the other one begins a new line. */
  readonly sendOn: 'enter' | 'shift-enter';
  /** As the setting of the status bar's gauge. */
  readonly gauge: 'full' | 'number' | 'hidden';
  /** Null if the kernel can be talked to. */
  readonly fault: IFault | null;
  /** What hinders for a while, in sentences, while the conversation stays to be read. */
  readonly notice?: string;
}

export const NO_ACTIONS: IActions = {
  replaceLabel: null,
  canInsert: false,
  canOpen: false,
  menu: [],
  examples: [],
  sendOn: 'enter',
  gauge: 'full',
  fault: null
};

interface IPlace {
  readonly host: IHost;
  readonly actions: IActions;
}

export const Place = React.createContext<IPlace | null>(null);

export function usePlace(): IPlace {
  const place = React.useContext(Place);
  if (!place) {
    throw new Error('The panel has no host.');
  }
  return place;
}

/** Ask the kernel; the mount has narrowed what comes back. */
export async function ask<T extends CallOp>(
  host: IHost,
  op: T,
  args: CallArgs<T>
): Promise<CallResult<T>> {
  return (await host.call(op, args)) as CallResult<T>;
}

/** What went wrong, in a sentence. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
