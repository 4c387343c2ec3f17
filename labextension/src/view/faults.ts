/** What stands in place of a conversation that is not there: the same words in every mount. */

import type { FeedState } from '../feed';
import type { IFault } from './context';

/**
 * Return why there is no conversation to show; null if there is one. `isEmpty`: none was shown; one
 * that was stays while it is opened again. `again` opens it.
 */
export function faultOfFeed(state: FeedState, isEmpty: boolean, again: () => void): IFault | null {
  switch (state.is) {
    case 'open':
      return null;
    case 'opening':
    case 'closed':
      return isEmpty ? { title: 'Opening the conversation.', text: '' } : null;
    case 'busy':
      return {
        title: 'The kernel is busy.',
        text: 'The conversation opens when the running cell is done.'
      };
    case 'failed':
      return {
        title: 'The conversation could not be opened.',
        text: state.reason,
        isError: true,
        buttons: [{ label: 'Try again', run: again }]
      };
  }
}
