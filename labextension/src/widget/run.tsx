/** Below a running cell: what the agent does, what fills its window, Stop, and what it asks. */

import * as React from 'react';

import { activityOf } from '../conversation';
import type { IConversation, IToolPart, ITurn } from '../conversation';
import type { IPanelState } from '../state';
import { Breakdown } from '../view/breakdown';
import { Same } from '../view/code';
import { ask, reasonOf, usePlace } from '../view/context';
import { useDrawing } from '../view/drawing';
import { Gauge } from '../view/gauge';
import { StopIcon } from '../view/icons';
import { TryNow } from '../view/notes';
import { Permission } from '../view/permission';
import { Rows } from '../view/steps';
import { formatClock, runLine } from '../view/words';

interface IRun {
  conversation: IConversation;
  state: IPanelState;
  /** Markdown of the kernel that stands here until the turn is over, "" if none. */
  carried: string;
}

export function Run({ conversation, state, carried }: IRun): React.ReactElement {
  const { live, question } = conversation;
  const [isGaugeOpen, setGaugeOpen] = React.useState(false);
  const tools = live?.parts.filter((part): part is IToolPart => part.kind === 'tool') ?? [];
  return (
    <>
      <RunLine conversation={conversation} state={state}>
        <Gauge
          state={state}
          showBar={true}
          isOpen={isGaugeOpen}
          onToggle={() => {
            setGaugeOpen(isOpen => !isOpen);
          }}
        />
      </RunLine>
      {isGaugeOpen && (
        <div className="jctx-inline">
          <Breakdown state={state} takeFocus={false} />
        </div>
      )}
      {tools.length > 0 && <Rows parts={tools} />}
      {question && <Permission key={question.id} question={question} takesFocus={false} />}
      <Carried text={carried} />
    </>
  );
}

interface IRunLine {
  conversation: IConversation;
  state: IPanelState;
  children: React.ReactNode;
}

function RunLine({ conversation, state, children }: IRunLine): React.ReactElement {
  const { host } = usePlace();
  const { live, question } = conversation;
  const [stopping, setStopping] = React.useState<number | null>(null);
  const [failed, setFailed] = React.useState('');
  const turn = live?.turn ?? 0;
  const last = live?.parts.at(-1);
  const isStopping = stopping === turn;
  const activity = activityOf(conversation);
  const stop = (): void => {
    setStopping(turn);
    setFailed('');
    ask(host, 'stop', { seq: conversation.seq }).catch((error: unknown) => {
      setStopping(null);
      setFailed(reasonOf(error));
    });
  };
  // Before the conversation is there, the gauge's word is all that is known.
  const said = runLine(activity, conversation, isStopping) || PHASES[state.phase] || 'Starting';
  return (
    <>
      <div className="jctx-run">
        <span className={question ? 'jctx-dot wait' : 'jctx-dot'} aria-hidden="true" />
        <span className="grow cut" role="status" aria-live="polite">
          {said}
        </span>
        <Clock live={live} />
        {children}
        {last?.kind === 'retry' && !last.isOver && <TryNow retry={last} tell={setFailed} />}
        <button
          type="button"
          className="plain stop"
          title={isStopping ? 'Press again to interrupt the kernel' : 'Stop the turn'}
          onClick={stop}
        >
          <StopIcon />
          <Same as="Stopping…" say={isStopping ? 'Stopping…' : 'Stop'} />
        </button>
      </div>
      {failed !== '' && <div role="alert">{failed}</div>}
    </>
  );
}

const PHASES: Readonly<Record<string, string>> = {
  running: 'Thinking',
  compacting: 'Compacting'
};

/** How long the turn has run, once a second. */
function Clock({ live }: { live: ITurn | null }): React.ReactElement {
  const { host } = usePlace();
  const [now, setNow] = React.useState(() => host.now());
  React.useEffect(() => {
    const timer = setInterval(() => {
      setNow(host.now());
    }, 1_000);
    return () => {
      clearInterval(timer);
    };
  }, [host]);
  const seconds = live ? Math.max(0, now / 1000 - live.at) : 0;
  return <span className="quiet">{live ? formatClock(seconds) : ''}</span>;
}

function Carried({ text }: { text: string }): React.ReactElement {
  const { host } = usePlace();
  const node = useDrawing<HTMLDivElement>(text, (source, target) =>
    host.renderMarkdown(source, target)
  );
  return <div className="jctx-md" ref={node} />;
}
