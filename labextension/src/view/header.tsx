/** The head of the panel: whose conversation it is, the gauge, New, and the rest behind ⋯. */

import * as React from 'react';

import type { IConversation } from '../conversation';
import type { IPanelState } from '../state';
import { Breakdown } from './breakdown';
import { usePlace } from './context';
import { formatPercent, gaugeSentence, isSized } from './format';
import { MiniBar } from './bar';
import { DownIcon, LeftIcon, MoreIcon, PlusIcon, WarnIcon } from './icons';
import { Menu, useOutside } from './menu';

interface IHeader {
  conversation: IConversation;
  state: IPanelState;
  isRunning: boolean;
  /** Run a command as if it were typed. */
  run: (command: string) => void;
  compact: () => void;
  /** Whether the list of sessions stands below, in place of the conversation. */
  isListing: boolean;
  list: (isListing: boolean) => void;
}

export function Header(props: IHeader): React.ReactElement {
  const { conversation, state, isRunning, run, compact, isListing, list } = props;
  const { actions } = usePlace();
  const title = conversation.session?.title || 'New session';
  const canRun = actions.fault === null && conversation.session !== null;
  const showSessions = (): void => {
    list(true);
  };
  const menu = [
    ...(canRun
      ? [
          ...(isListing ? [] : [{ label: 'Sessions', run: showSessions }]),
          { label: 'Compact now', run: compact },
          ...COMMANDS.map(({ label, command }) => ({
            label,
            run: () => {
              list(false); // what it shows, shows there
              run(command);
            }
          }))
        ]
      : []),
    ...actions.menu
  ];
  return (
    <div className="jctx-head" role="toolbar" aria-label="Agent">
      {isListing ? (
        <>
          <button
            type="button"
            className="icon"
            aria-label={`Back to ${title}`}
            title="Back"
            onClick={() => {
              list(false);
            }}
          >
            <LeftIcon />
          </button>
          <h2 className="title cut">Sessions</h2>
        </>
      ) : canRun ? (
        <button
          type="button"
          className="title"
          aria-haspopup="listbox"
          aria-label={`Sessions: ${title}`}
          title="Sessions"
          onClick={showSessions}
        >
          <span className="cut">{title}</span>
          <DownIcon />
        </button>
      ) : (
        <h2 className="title cut" title={title}>
          {title}
        </h2>
      )}
      <span className="grow" />
      {actions.gauge !== 'hidden' && (
        <PanelGauge state={state} compact={canRun && !isRunning ? compact : undefined} />
      )}
      <button
        type="button"
        className="icon"
        aria-label="New session"
        title="New session"
        disabled={!canRun}
        onClick={() => {
          list(false);
          run('/new');
        }}
      >
        <PlusIcon />
      </button>
      {menu.length > 0 && (
        <Menu className="icon" placement="jctx-under menu" label="More" title="More" items={menu}>
          <MoreIcon />
        </Menu>
      )}
    </div>
  );
}

const COMMANDS = [
  { label: 'What fills the window', command: '/context' },
  { label: 'Cost', command: '/cost' },
  { label: 'Undo the last edit', command: '/undo' },
  { label: 'Permissions', command: '/permissions' },
  { label: 'All commands', command: '/help' },
  { label: 'Check my setup', command: '/doctor' }
] as const;

/** The gauge of the panel: the bar and the per cent, the breakdown below. */
interface IPanelGauge {
  state: IPanelState;
  compact: (() => void) | undefined;
}

function PanelGauge({ state, compact }: IPanelGauge): React.ReactElement | null {
  const { actions } = usePlace();
  const [isOpen, setIsOpen] = React.useState(false);
  const button = React.useRef<HTMLButtonElement>(null);
  const popover = React.useRef<HTMLDivElement>(null);
  useOutside([button, popover], isOpen, () => {
    setIsOpen(false);
  });
  const { context, link, phase } = state;
  if (link === 'absent') {
    return null;
  }
  const sentence = gaugeSentence(state);
  const isAlarm = link === 'refused' || (phase === 'paused' && context !== null);
  return (
    <>
      <button
        type="button"
        ref={button}
        className="jctx-gauge"
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        aria-label={sentence}
        title={sentence}
        onClick={() => {
          setIsOpen(!isOpen);
        }}
      >
        {actions.gauge === 'full' && context && isSized(context) && <MiniBar context={context} />}
        {isAlarm && <WarnIcon />}
        <span>{context && isSized(context) ? formatPercent(context) : '– %'}</span>
      </button>
      {isOpen && (
        <div
          ref={popover}
          className="jctx-under"
          onKeyDown={event => {
            if (event.key === 'Escape') {
              event.preventDefault();
              event.stopPropagation();
              setIsOpen(false);
              button.current?.focus();
            }
          }}
        >
          <Breakdown
            state={state}
            takeFocus
            compact={
              compact &&
              (() => {
                setIsOpen(false);
                button.current?.focus();
                compact();
              })
            }
          />
        </div>
      )}
    </>
  );
}
