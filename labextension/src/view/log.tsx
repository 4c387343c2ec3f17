/** The conversation: it follows its end only while the reader is at the end. */

import * as React from 'react';

import type { Aside, IConversation, LogEntry } from '../conversation';
import type { IContext } from '../events';
import { Compaction } from './compaction';
import { ask, reasonOf, usePlace } from './context';
import { findLast, useLatest } from './frame';
import { DownIcon } from './icons';
import { Failed, Note, Refusal, Shown } from './notes';
import { Permission } from './permission';
import { Remembered } from './plan';
import { Turn } from './turn';
import { isTurn } from './words';

/** So near the end, in pixels, counts as at the end. */
const AT_END = 24;

/** So many turns come with each press of "Show earlier turns". */
const TURNS = 30;

interface ILog {
  conversation: IConversation;
  context: IContext | null;
  takesFocus: boolean;
  edit: (text: string) => void;
  /** Take turns from before; what `earlier` answered. */
  addEarlier: ((answer: unknown) => void) | null;
  /** What stands there before the first turn. */
  first: React.ReactNode;
  children: React.ReactNode;
}

export function Log(props: ILog): React.ReactElement {
  const { conversation, context, takesFocus, edit, addEarlier, first, children } = props;
  const { log, live, question } = conversation;
  const closed = closedLine(conversation.closed);
  const node = React.useRef<HTMLDivElement>(null);
  const inner = React.useRef<HTMLDivElement>(null);
  const { isAtEnd, toEnd, onScroll } = useEnd(node, inner, log.length > 0 || live !== null);
  const known = useKnown(log);
  const window = context?.window_tokens ?? null;
  const reserve = context?.reserve_tokens ?? null;
  const drawAside = React.useCallback(
    (aside: Aside, isNew: boolean): React.ReactNode => {
      switch (aside.kind) {
        case 'compaction':
          return (
            <Compaction
              compaction={aside}
              isNew={isNew}
              windowTokens={window}
              reserveTokens={reserve}
              drawEntry={drawReplaced}
            />
          );
        case 'note':
          return <Note note={aside} isNew={isNew} />;
        case 'memory':
          return <Remembered memory={aside} isNew={isNew} />;
        case 'shown':
          return <Shown shown={aside} />;
        case 'failed':
          return <Failed failed={aside} isNew={isNew} />;
      }
    },
    [window, reserve]
  );
  const lastTurn = live ?? findLast(log, isTurn);
  const draw = (key: string, entry: LogEntry): React.ReactNode => {
    const isAsked = entry === lastTurn && question !== null;
    return entry.kind === 'turn' ? (
      <Turn
        key={key}
        turn={entry}
        isLive={entry === live}
        isLast={entry === lastTurn}
        question={isAsked ? question : null}
        takesFocus={isAsked && takesFocus}
        drawAside={drawAside}
        edit={edit}
      />
    ) : (
      <div key={key} className="jctx-aside">
        {drawAside(entry, !known.has(key))}
      </div>
    );
  };
  // While the running turn grows, what is settled is not even looked at.
  const isIdle = live === null;
  const settled = React.useMemo(
    () => keysOf(log).map(({ key, entry }) => draw(key, entry)),
    // `draw` reads no more than these of what can change
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [log, isIdle, isIdle && question, isIdle && takesFocus, drawAside, edit]
  );
  return (
    <div className="jctx-main">
      <div
        className="jctx-log"
        role="log"
        aria-label="Conversation"
        aria-live="off"
        tabIndex={0}
        ref={node}
        onScroll={onScroll}
        onKeyDown={moveByRow}
      >
        <div ref={inner}>
          {conversation.hasEarlier && addEarlier && (
            <Earlier before={conversation.firstTurn ?? 0} add={addEarlier} />
          )}
          {isIdle && log.length === 0 && first}
          {settled}
          {live && draw(`turn ${live.turn}`, live)}
          {closed && question === null && live && (
            <div className="jctx-closed small quiet">{closed}</div>
          )}
          {question && !lastTurn && (
            <Permission key={question.id} question={question} takesFocus={takesFocus} />
          )}
        </div>
      </div>
      {!isAtEnd && (
        <div className="jctx-new">
          <button type="button" onClick={toEnd}>
            <DownIcon />
            New below
          </button>
        </div>
      )}
      {children}
    </div>
  );
}

/** How a question ended that nobody answered here; of an answer given here the step's row tells. */
function closedLine(closed: IConversation['closed']): string {
  if (closed?.how === 'expired') {
    return 'The question is closed: it was not answered in time.';
  }
  return closed?.how === 'elsewhere' ? 'The question was answered elsewhere.' : '';
}

/** On a row: up and down go to the next one, right and left open and close it. */
function moveByRow(event: React.KeyboardEvent<HTMLElement>): void {
  const row = event.target as HTMLElement;
  const details = row.parentElement;
  if (row.tagName !== 'SUMMARY' || !details || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  const rows = [...event.currentTarget.querySelectorAll('summary')].filter(
    one => one.getClientRects().length > 0
  );
  const at = rows.indexOf(row);
  switch (event.key) {
    case 'ArrowDown':
      rows[at + 1]?.focus();
      break;
    case 'ArrowUp':
      rows[at - 1]?.focus();
      break;
    case 'ArrowRight':
    case 'ArrowLeft':
      details.toggleAttribute('open', event.key === 'ArrowRight');
      break;
    default:
      return;
  }
  event.preventDefault();
}

/** A turn that a summary replaced: to be read, not to be taken back. */
function drawReplaced(entry: LogEntry): React.ReactNode {
  return entry.kind === 'turn' ? (
    <Turn
      turn={entry}
      isLive={false}
      isLast={false}
      question={null}
      takesFocus={false}
      drawAside={nothing}
    />
  ) : null;
}

function nothing(): null {
  return null;
}

/** A key for each entry that stays when turns come in front: asides are counted from their turn. */
function keysOf(entries: readonly LogEntry[]): { key: string; entry: LogEntry }[] {
  let turn = 'start';
  let behind = 0;
  return entries.map(entry => {
    if (entry.kind === 'turn') {
      turn = `turn ${entry.turn}`;
      behind = 0;
      return { key: turn, entry };
    }
    behind += 1;
    if (entry.kind === 'compaction' && entry.n !== null) {
      return { key: `compaction ${entry.n}`, entry };
    }
    return { key: `${turn} + ${behind}`, entry };
  });
}

/** Keys of the entries that were there when the panel was: they are read, not announced. */
function useKnown(log: readonly LogEntry[]): ReadonlySet<string> {
  const known = React.useRef<ReadonlySet<string> | null>(null);
  known.current ??= new Set(keysOf(log).map(({ key }) => key));
  return known.current;
}

interface IEnd {
  /** Whether all is seen; once the reader scrolls up, until they come back. */
  isAtEnd: boolean;
  toEnd: () => void;
  onScroll: () => void;
}

/** `isTold`: something was said; what stands there before is read from its top. */
function useEnd(
  node: React.RefObject<HTMLElement>,
  inner: React.RefObject<HTMLElement>,
  isTold: boolean
): IEnd {
  const follows = React.useRef(true);
  const height = React.useRef(0);
  const top = React.useRef(0);
  const [isAtEnd, setIsAtEnd] = React.useState(true);
  const toEnd = React.useCallback(() => {
    follows.current = true;
    setIsAtEnd(true);
    if (node.current) {
      node.current.scrollTop = node.current.scrollHeight;
    }
  }, [node]);
  const onGrow = useLatest(() => {
    const { current: log } = node;
    if (!log || !isTold) {
      return;
    }
    if (follows.current) {
      log.scrollTop = log.scrollHeight;
    } else if (log.scrollHeight > height.current) {
      setIsAtEnd(false); // something came below
    }
    height.current = log.scrollHeight;
  });
  React.useLayoutEffect(() => {
    onGrow(); // what React put there; what the host draws later is seen by the observer
  });
  React.useEffect(() => {
    const observer = new ResizeObserver(() => {
      onGrow();
    });
    for (const observed of [node.current, inner.current]) {
      if (observed) {
        observer.observe(observed);
      }
    }
    return () => {
      observer.disconnect();
    };
  }, [node, inner, onGrow]);
  return {
    isAtEnd,
    toEnd,
    onScroll: () => {
      const { current: log } = node;
      if (!log) {
        return;
      }
      // What grows below moves nothing up: only the reader's own way up ends the following.
      if (log.scrollHeight - log.scrollTop - log.clientHeight <= AT_END) {
        follows.current = true;
        setIsAtEnd(true);
      } else if (log.scrollTop < top.current) {
        follows.current = false;
      }
      top.current = log.scrollTop;
    }
  };
}

function Earlier({
  before,
  add
}: {
  before: number;
  add: (answer: unknown) => void;
}): React.ReactElement {
  const { host } = usePlace();
  const [isAsked, setIsAsked] = React.useState(false);
  const [failed, setFailed] = React.useState('');
  return (
    <div className="jctx-earlier">
      <button
        type="button"
        className="text"
        disabled={isAsked}
        onClick={() => {
          setIsAsked(true);
          ask(host, 'earlier', { before, turns: TURNS })
            .then(add, (error: unknown) => {
              setFailed(reasonOf(error));
            })
            .finally(() => {
              setIsAsked(false);
            });
        }}
      >
        Show earlier turns
      </button>
      <Refusal
        text={failed}
        close={() => {
          setFailed('');
        }}
      />
    </div>
  );
}
