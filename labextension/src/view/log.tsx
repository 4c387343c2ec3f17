/** The conversation: it follows its end only while the reader is at the end. */

import * as React from 'react';

import type { Aside, IConversation, ITurn, LogEntry } from '../conversation';
import type { IContext } from '../events';
import type { IQuestion } from '../panel';
import { Compaction } from './compaction';
import { ask, reasonOf, usePlace } from './context';
import { findLast, useLatest } from './frame';
import { DownIcon } from './icons';
import { Failed, Note, Refusal, Shown } from './notes';
import { Permission } from './permission';
import { Remembered } from './plan';
import { keysOf, sliceOf, stretchesOf, withLive } from './stretches';
import type { IKeyed } from './stretches';
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
  const list = React.useMemo(() => keysOf(log), [log]);
  const known = useKnown(list, conversation);
  const { drawn, isDrawing } = useDrawn(list);
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
  // While the running turn grows, what is settled is not even looked at.
  const settled = React.useMemo(() => stretchesOf(drawn), [drawn]);
  const stretches = live ? withLive(settled, live) : settled;
  const asked = lastTurn ? question : null;
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
            <Earlier before={conversation.firstTurn ?? 0} add={addEarlier} isDrawing={isDrawing} />
          )}
          {live === null && log.length === 0 && first}
          {stretches.map(({ key, entries }, at) => {
            const isLast = at === stretches.length - 1; // asides stand in their turn's
            return (
              <Stretch
                key={key}
                entries={entries}
                isPast={!isLast}
                lastTurn={isLast ? lastTurn : undefined}
                isLive={isLast && live !== null}
                question={isLast ? asked : null}
                takesFocus={isLast && asked !== null && takesFocus}
                known={known}
                drawAside={drawAside}
                edit={edit}
              />
            );
          })}
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

interface IStretchView {
  entries: readonly IKeyed[];
  /** Whether all of it is over: out of sight it is skipped as one. */
  isPast: boolean;
  /** The newest turn of the conversation, where it stands here. */
  lastTurn: ITurn | undefined;
  isLive: boolean;
  question: IQuestion | null;
  takesFocus: boolean;
  known: IKnown | null;
  drawAside: (aside: Aside, isNew: boolean) => React.ReactNode;
  edit: (text: string) => void;
}

const Stretch = React.memo(function Stretch(props: IStretchView): React.ReactElement {
  const { entries, isPast, lastTurn, isLive, question, takesFocus, known, drawAside, edit } = props;
  return (
    <div
      className={isPast ? 'jctx-stretch past' : 'jctx-stretch'}
      style={{ '--jctx-turns': entries.length } as React.CSSProperties}
    >
      {entries.map(({ key, entry, turn }) => {
        const isLast = entry === lastTurn;
        return entry.kind === 'turn' ? (
          <Turn
            key={key}
            turn={entry}
            isLive={isLast && isLive}
            isLast={isLast}
            question={isLast ? question : null}
            takesFocus={isLast && takesFocus}
            drawAside={drawAside}
            edit={edit}
          />
        ) : (
          <div key={key} className="jctx-aside">
            {drawAside(entry, isNew(known, key, turn))}
          </div>
        );
      })}
    </div>
  );
}, isSameStretch);

function isSameStretch(one: IStretchView, other: IStretchView): boolean {
  const { entries, ...rest } = one;
  const isSame =
    entries === other.entries ||
    (entries.length === other.entries.length &&
      entries.every(({ key, entry }, at) => {
        const now = other.entries[at];
        return now?.key === key && now.entry === entry;
      }));
  return (
    isSame &&
    Object.entries(rest).every(([name, value]) => other[name as keyof IStretchView] === value)
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
  switch (event.key) {
    case 'ArrowDown':
      nextRow(event.currentTarget, row, 1)?.focus();
      break;
    case 'ArrowUp':
      nextRow(event.currentTarget, row, -1)?.focus();
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

/** The nearest row that can be seen; of those farther away the browser is not asked. */
function nextRow(log: HTMLElement, row: HTMLElement, by: 1 | -1): HTMLElement | undefined {
  const rows = [...log.querySelectorAll('summary')];
  let at = rows.indexOf(row) + by;
  while (rows[at]?.getClientRects().length === 0) {
    at += by;
  }
  return rows[at];
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

/** What was there when the conversation was: it is read, not announced. */
interface IKnown {
  readonly keys: ReadonlySet<string>;
  /** What stands before this turn comes by "Show earlier turns". */
  readonly firstTurn: number;
}

function useKnown(list: readonly IKeyed[], { epoch, firstTurn }: IConversation): IKnown | null {
  const known = React.useRef<IKnown | null>(null);
  if (epoch !== null || list.length > 0) {
    known.current ??= { keys: new Set(list.map(({ key }) => key)), firstTurn: firstTurn ?? 0 };
  }
  return known.current;
}

function isNew(known: IKnown | null, key: string, turn: number): boolean {
  return known !== null && !known.keys.has(key) && turn >= known.firstTurn;
}

interface IDrawn {
  readonly drawn: readonly IKeyed[];
  /** Whether some are still to be drawn. */
  readonly isDrawing: boolean;
}

/** Turns that come in front are drawn a few a frame, the first of them first: none waits long. */
function useDrawn(list: readonly IKeyed[]): IDrawn {
  const front = list[0]?.entry;
  const [known, setKnown] = React.useState(front);
  // Entries from `at` to the one that was in front are not drawn yet.
  const [gap, setGap] = React.useState<{ at: number; until: LogEntry } | null>(null);
  const indexOf = (entry: LogEntry | undefined): number =>
    list.findIndex(one => one.entry === entry);
  if (known !== front) {
    setKnown(front);
    const end = known ? indexOf(known) : -1;
    setGap(known && end > 0 ? { at: sliceOf(list, 0, end), until: known } : null);
  }
  const end = gap ? indexOf(gap.until) : -1;
  const isDrawing = gap !== null && gap.at < end;
  const next = isDrawing ? { ...gap, at: gap.at + sliceOf(list, gap.at, end) } : null;
  const draw = useLatest(() => {
    setGap(next);
  });
  React.useEffect(() => {
    if (!isDrawing) {
      return;
    }
    const frame = requestAnimationFrame(draw);
    return () => {
      cancelAnimationFrame(frame);
    };
  }, [isDrawing, gap, draw]);
  const at = isDrawing ? gap.at : 0;
  const drawn = React.useMemo(
    () => (isDrawing ? [...list.slice(0, at), ...list.slice(end)] : list),
    [list, isDrawing, at, end]
  );
  return { drawn, isDrawing };
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
  add,
  isDrawing
}: {
  before: number;
  add: (answer: unknown) => void;
  /** Whether what it brought is not all there yet. */
  isDrawing: boolean;
}): React.ReactElement {
  const { host } = usePlace();
  const [asked, setAsked] = React.useState<number | null>(null); // no page is asked for twice
  const [failed, setFailed] = React.useState('');
  return (
    <div className="jctx-earlier">
      <button
        type="button"
        className="text"
        disabled={asked === before || isDrawing}
        onClick={() => {
          setAsked(before);
          ask(host, 'earlier', { before, turns: TURNS }).then(add, (error: unknown) => {
            setAsked(null);
            setFailed(reasonOf(error));
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
