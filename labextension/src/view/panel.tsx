/** The panel: the head, the conversation, the prompt. One view for every front end. */

import * as React from 'react';

import { activityOf } from '../conversation';
import type { IConversation, ITextPart, TurnPart } from '../conversation';
import type { IHost } from '../host';
import type { IEarlier, IImage, IQueued } from '../panel';
import type { IPanelState } from '../state';
import { Composer } from './composer';
import type { IComposer } from './composer';
import { ask, NO_ACTIONS, Place, reasonOf } from './context';
import type { IActions } from './context';
import { Queue, RunLine } from './dock';
import { FirstRun } from './first';
import { findLast, useFrame, useLatest } from './frame';
import { Header } from './header';
import { Log } from './log';
import { Fault, Refusal } from './notes';
import { Plan } from './plan';
import { SessionList } from './sessions';
import type { ISessionListHandle } from './sessions';
import { isTurn, runLine } from './words';

export { NO_ACTIONS } from './context';
export type { IAction, IActions, IFault } from './context';

export interface IPanelProps {
  conversation: IConversation;
  /** What the gauge shows. */
  panelState: IPanelState;
  host: IHost;
  actions?: IActions;
  /** Put the turns of an answer to `earlier` in front; absent where none can be shown. */
  addEarlier?: (answer: IEarlier) => void;
}

/** What a mount may do with its panel. */
export interface IPanelHandle {
  /** Focus the prompt, or the list of sessions where that is shown. */
  focus: () => void;
  /** Show the list of sessions in place of the conversation. */
  showSessions: () => void;
  /** Put a text where the caret is, and focus the prompt: `@cell:ID`, `@name`, `@path`. */
  insert: (text: string) => void;
  /** Put a text into the prompt, in front of what is there, and focus it. */
  take: (text: string) => void;
  /** Send a text at once, as if it were typed. */
  send: (text: string) => void;
  /** Stop what runs; again while it stops: interrupt the kernel. */
  stop: () => void;
}

export const Panel = React.forwardRef<IPanelHandle, IPanelProps>(function Panel(props, handle) {
  const { panelState: state, host, actions = NO_ACTIONS, addEarlier } = props;
  const conversation = useFrame(props.conversation);
  const { session, live, question, queue } = conversation;
  const root = React.useRef<HTMLDivElement>(null);
  const composer = React.useRef<IComposer>(null);
  const waiting = React.useRef(new Map<string, string>());
  const sessions = React.useRef<ISessionListHandle>(null);
  const [refused, setRefused] = React.useState('');
  const [wantsList, setWantsList] = React.useState(false);
  const place = React.useMemo(() => ({ host, actions }), [host, actions]);

  const activity = activityOf(conversation);
  const isRunning = conversation.isRunning || live !== null || activity !== null;
  const { isStopping, stop } = useStop(host, conversation, isRunning, setRefused);
  const send = useLatest(async (text: string, images: readonly IImage[]) => {
    const { id, queued } = await ask(host, 'submit', { text, images });
    if (queued) {
      waiting.current.set(id, text);
    }
  });
  const attempt = useLatest((call: Promise<unknown>) => {
    call.catch((error: unknown) => {
      setRefused(reasonOf(error));
    });
  });
  const run = useLatest((command: string) => {
    attempt(send(command, []));
  });
  const take = React.useCallback((text: string) => {
    composer.current?.take(text);
  }, []);
  const list = React.useCallback((isListing: boolean) => {
    setWantsList(isListing);
  }, []);
  const editQueued = useLatest((queued: IQueued) => {
    const edit = async (): Promise<void> => {
      const { text } = await ask(host, 'prompt', { turn: null, id: queued.id });
      await ask(host, 'unqueue', { id: queued.id });
      take(text);
    };
    attempt(edit());
  });
  useGivenBack(conversation, take);
  useLostQueue(conversation, waiting.current, take);
  React.useImperativeHandle(
    handle,
    () => ({
      focus: () => {
        (sessions.current ?? composer.current)?.focus();
      },
      showSessions: () => {
        list(true);
        sessions.current?.focus();
      },
      insert: text => {
        list(false);
        composer.current?.insert(text);
      },
      take: text => {
        list(false);
        take(text);
      },
      send: command => {
        list(false);
        run(command);
      },
      stop
    }),
    [take, list, run, stop]
  );

  const words = runLine(activity, conversation, isStopping);
  const isOff = actions.fault !== null || session === null;
  const isListing = wantsList && session !== null && !actions.fault;
  useBack(isListing, composer);
  const takesFocus =
    !isListing &&
    (composer.current?.isEmpty() ?? true) &&
    (root.current?.contains(root.current.ownerDocument.activeElement) ?? false);
  const next = (live?.turn ?? lastTurnOf(conversation)) + 1;
  const first = actions.fault ? null : session ? (
    <FirstRun session={session} examples={actions.examples} take={take} run={run} />
  ) : (
    <div className="jctx-first quiet">Reading the conversation</div>
  );

  return (
    <Place.Provider value={place}>
      <div
        className={isListing ? 'jctx jctx-panel listing' : 'jctx jctx-panel'}
        ref={root}
        onKeyDown={event => {
          if (event.key === 'F6' && root.current) {
            event.preventDefault();
            event.stopPropagation();
            toNextRegion(root.current, isListing ? LIST_REGIONS : REGIONS, event.shiftKey ? -1 : 1);
          } else if (event.key === '.' && (event.ctrlKey || event.metaKey) && isRunning) {
            event.preventDefault();
            event.stopPropagation();
            stop();
          }
        }}
      >
        <Header
          conversation={conversation}
          state={state}
          isRunning={isRunning}
          run={run}
          compact={() => {
            list(false);
            attempt(ask(host, 'compact', { focus: '' }));
          }}
          isListing={isListing}
          list={list}
        />
        {isListing && (
          <SessionList
            ref={sessions}
            isAwaited={activity === 'waiting'}
            isRunning={isRunning}
            close={() => {
              list(false);
            }}
          />
        )}
        {actions.fault ? (
          <div className="jctx-main">
            <div className="jctx-log" role="log" aria-label="Conversation" tabIndex={0}>
              <Fault fault={actions.fault} />
            </div>
          </div>
        ) : (
          <Log
            conversation={conversation}
            context={state.context}
            takesFocus={takesFocus}
            edit={take}
            addEarlier={
              addEarlier
                ? answer => {
                    addEarlier(answer as IEarlier);
                  }
                : null
            }
            first={first}
          >
            <RunLine
              words={words}
              isWaiting={activity === 'waiting'}
              since={live?.at ?? question?.at ?? null}
            />
          </Log>
        )}
        <div className="jctx-dock">
          {actions.notice && (
            <div className="jctx-note warn" role="alert">
              {actions.notice}
            </div>
          )}
          <Refusal
            text={refused}
            close={() => {
              setRefused('');
              composer.current?.focus();
            }}
          />
          <Plan plan={conversation.plan} edit={take} />
          <Queue
            queue={queue}
            first={session === null ? null : next}
            edit={editQueued}
            remove={queued => {
              attempt(ask(host, 'unqueue', { id: queued.id }));
            }}
          />
          <Composer
            ref={composer}
            conversation={conversation}
            isRunning={isRunning}
            isStopping={isStopping}
            isOff={isOff}
            stop={stop}
            send={send}
          />
        </div>
        <div className="sr" role="alert">
          {question && `Permission asked: ${question.title}`}
        </div>
        <Sentences conversation={conversation} />
      </div>
    </Place.Provider>
  );
});

/** Stop, and whether it is under way: from a press until nothing runs. */
function useStop(
  host: IHost,
  { seq, live }: IConversation,
  isRunning: boolean,
  refuse: (why: string) => void
): { isStopping: boolean; stop: () => void } {
  const turn = live?.turn ?? 0;
  const [stopping, setStopping] = React.useState<number | null>(null);
  const isStopping = stopping === turn && isRunning;
  if (stopping !== null && !isStopping) {
    setStopping(null); // what runs now is something else
  }
  const stop = useLatest(() => {
    if (!isRunning) {
      return;
    }
    setStopping(turn);
    ask(host, 'stop', { seq }).catch((error: unknown) => {
      setStopping(null);
      refuse(reasonOf(error));
    });
  });
  return { isStopping, stop };
}

/** A prompt that could not run goes back into the box, once, if this page looked on. */
function useGivenBack(conversation: IConversation, take: (text: string) => void): void {
  const given = React.useRef<Set<string> | null>(null);
  React.useEffect(() => {
    if (conversation.epoch === null) {
      return;
    }
    const failed = conversation.log.flatMap(entry => (entry.kind === 'failed' ? [entry] : []));
    const isFirst = given.current === null;
    given.current ??= new Set();
    const texts: string[] = [];
    for (const { id, title, text } of failed) {
      const key = id ?? `${title}\n${text}`;
      if (!given.current.has(key)) {
        given.current.add(key);
        if (!isFirst && text !== '') {
          texts.push(text);
        }
      }
    }
    if (texts.length > 0) {
      take(texts.join('\n\n')); // at once: what is taken twice in one frame would be the last only
    }
  }, [conversation.epoch, conversation.log, take]);
}

/** Prompts sent from here, whole, that waited go back into the box when their kernel is gone. */
function useLostQueue(
  { epoch, queue }: IConversation,
  sent: Map<string, string>,
  take: (text: string) => void
): void {
  const before = React.useRef(queue);
  React.useEffect(() => {
    const gone = before.current.filter(({ id }) => !queue.some(one => one.id === id));
    before.current = queue;
    const texts = gone.flatMap(({ id }) => sent.get(id) ?? []);
    for (const { id } of gone) {
      sent.delete(id);
    }
    if (texts.length > 0 && epoch === null) {
      take(texts.join('\n\n'));
    }
  }, [epoch, queue, sent, take]);
}

function lastTurnOf({ log, session }: IConversation): number {
  const last = findLast(log, isTurn);
  return last?.turn ?? session?.turns ?? 0;
}

/** Once the list is gone, the focus that was in it goes to the prompt. */
function useBack(isListing: boolean, composer: React.RefObject<IComposer>): void {
  const wasListing = React.useRef(false);
  React.useEffect(() => {
    if (wasListing.current && !isListing) {
      composer.current?.focus();
    }
    wasListing.current = isListing;
  }, [isListing, composer]);
}

/** Regions in the order of F6: what waits, the conversation, the prompt, the head. */
const REGIONS = ['.jctx-ask', '.jctx-log', '.jctx-box > textarea', '.jctx-head button'];
const LIST_REGIONS = ['.jctx-find > input', '.jctx-shelf [role=listbox]', '.jctx-head button'];
const AROUND = [
  '.jctx-ask',
  '.jctx-log',
  '.jctx-dock',
  '.jctx-find',
  '.jctx-shelf [role=listbox]',
  '.jctx-head'
];

function toNextRegion(root: HTMLElement, names: readonly string[], by: number): void {
  const regions = names.flatMap(one => root.querySelector<HTMLElement>(one) ?? []);
  const focused = root.ownerDocument.activeElement;
  const around = (node: Element | null): string | undefined =>
    AROUND.find(one => node?.closest(one)); // a question lies in the conversation: the inner counts
  const inside = around(focused);
  const at = regions.findIndex(region => inside && around(region) === inside);
  regions.at((at + by) % regions.length)?.focus();
}

function isText(part: TurnPart): part is ITextPart {
  return part.kind === 'text';
}

/** Tells a screen reader what is written, at ends of paragraphs, not token by token. */
function Sentences({ conversation }: { conversation: IConversation }): React.ReactElement {
  const { live } = conversation;
  const part = live && findLast(live.parts, isText);
  const text = part?.text ?? '';
  const end = part?.isDone ? text.length : text.lastIndexOf('\n\n') + 1;
  const key = live && part ? `${live.turn} ${part.block}` : '';
  const told = React.useRef({ key: '', end: 0, said: '' });
  if (told.current.key !== key) {
    told.current = { key, end: 0, said: '' };
  }
  if (end > told.current.end) {
    const said = text
      .slice(told.current.end, end)
      .replace(/^\s*(`{3,}|~{3,}).*$/gm, '')
      .trim();
    told.current = { key, end, said };
  }
  return (
    <div className="sr" role="status" aria-label="Answer">
      {told.current.said}
    </div>
  );
}
