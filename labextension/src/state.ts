/** What the page knows of one kernel, folded from its messages. No DOM, no front end. */

import type { IContext, ICosts, IRefused, PanelMessage, Phase } from './events';
import { assertNever } from './narrow';

export interface IPanelState {
  /** `absent`: no extension in that kernel, show nothing. `refused`: `refusal` tells why. */
  readonly link: 'absent' | 'connected' | 'refused';
  readonly refusal: string | null;
  readonly packageVersion: string | null;
  readonly session: string | null;
  readonly phase: Phase;
  /** Null before the first turn. */
  readonly context: IContext | null;
  /** What its usage cost, in USD; null where that is not known. */
  readonly costs: ICosts | null;
}

export type PanelEvent = PanelMessage | IRefused | { readonly type: 'disconnected' };

export const ABSENT: IPanelState = {
  link: 'absent',
  refusal: null,
  packageVersion: null,
  session: null,
  phase: 'idle',
  context: null,
  costs: null
};

/** Return the state after `event`. Pure. */
export function reduce(state: IPanelState, event: PanelEvent): IPanelState {
  switch (event.type) {
    case 'hello':
      return {
        ...ABSENT,
        link: 'connected',
        packageVersion: event.package_version,
        session: event.session
      };
    case 'context':
      return {
        ...state,
        link: 'connected',
        refusal: null,
        phase: event.phase,
        context: event.context,
        costs: event.costs
      };
    case 'refused':
      return { ...ABSENT, link: 'refused', refusal: event.reason };
    case 'disconnected':
      return ABSENT;
    default:
      return assertNever(event);
  }
}
