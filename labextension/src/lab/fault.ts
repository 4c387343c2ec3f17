/** Why there is no conversation to show, in words; null if there is one. */

import type { IAction, IFault } from '../view/context';
import { faultOfFeed } from '../view/faults';
import type { NotebookLink } from './link';

export const NO_NOTEBOOK: IFault = {
  title: 'Open a notebook to begin.',
  text: 'The agent lives in its kernel.'
};

/** Return what stands in place of a conversation. `type` puts a line into a new cell. */
export function faultOf(link: NotebookLink, type: (line: string) => void): IFault | null {
  const { loading, feed } = link;
  const again: IAction = {
    label: 'Try again',
    run: () => {
      link.retry();
    }
  };
  switch (loading.is) {
    case 'missing': {
      const { title, detail: text, command } = loading;
      if (command === null) {
        return { title, text, buttons: [again] };
      }
      const insert: IAction = {
        label: 'Insert as cell',
        run: () => {
          type(command);
        }
      };
      const buttons = command.startsWith('%') ? [insert, again] : [again];
      return { title, text, command, isError: true, buttons };
    }
    case 'none':
      return {
        title: 'This notebook has no kernel.',
        text: 'Choose one in the Kernel menu; one that could not start is started again there.'
      };
    case 'starting':
      return wait('The kernel is starting.');
    case 'busy':
      return {
        title: 'The kernel is busy.',
        text: 'The agent is loaded when the running cell is done.'
      };
    case 'loading':
      return wait('Loading the agent.');
    case 'loaded':
      return faultOfFeed(feed.state, feed.conversation.epoch === null, again.run);
  }
}

function wait(title: string): IFault {
  return { title, text: '' };
}
