/** The head of the panel: whose conversation it is, the gauge, New, and the rest behind ⋯. */

import * as React from 'react';

import type { IConversation } from '../conversation';
import type { IPanelState } from '../state';
import { Breakdown } from './breakdown';
import { usePlace } from './context';
import { formatPercent, gaugeSentence, isSized } from './format';
import { MiniBar } from './bar';
import { DownIcon, MoreIcon, PlusIcon, WarnIcon } from './icons';
import { Menu, useOutside } from './menu';

interface IHeader {
  conversation: IConversation;
  state: IPanelState;
  /** Run a command as if it were typed. */
  run: (command: string) => void;
  compact: () => void;
}

export function Header({ conversation, state, run, compact }: IHeader): React.ReactElement {
  const { actions } = usePlace();
  const title = conversation.session?.title || 'New session';
  const canRun = actions.fault === null && conversation.session !== null;
  const menu = [
    ...(canRun
      ? [
          { label: 'Compact now', run: compact },
          ...COMMANDS.map(({ label, command }) => ({
            label,
            run: () => {
              run(command);
            }
          }))
        ]
      : []),
    ...actions.menu
  ];
  return (
    <div className="jctx-head" role="toolbar" aria-label="Agent">
      {actions.openSessions ? (
        <button type="button" className="title" title="Sessions" onClick={actions.openSessions}>
          <span className="cut">{title}</span>
          <DownIcon />
        </button>
      ) : (
        <h3 className="title cut" title={title}>
          {title}
        </h3>
      )}
      <span className="grow" />
      {actions.gauge !== 'hidden' && <PanelGauge state={state} />}
      <button
        type="button"
        className="icon"
        aria-label="New session"
        title="New session"
        disabled={!canRun}
        onClick={() => {
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
  { label: 'Sessions', command: '/sessions' },
  { label: 'All commands', command: '/help' },
  { label: 'Check my setup', command: '/doctor' }
] as const;

/** The gauge of the panel: the bar and the per cent, the breakdown below. */
function PanelGauge({ state }: { state: IPanelState }): React.ReactElement | null {
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
          <Breakdown state={state} takeFocus />
        </div>
      )}
    </>
  );
}
