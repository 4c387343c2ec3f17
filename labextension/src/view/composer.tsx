/** The prompt: a box that grows to eight lines, what goes along, and the buttons below it. */

import * as React from 'react';

import type { IConversation } from '../conversation';
import type { CallResult, ICompletion, IImage } from '../panel';
import { Chips, formatBytes, readPictures } from './attachments';
import type { IPicture } from './attachments';
import { Same } from './code';
import { CompletionList, takesEnter, useCompletion } from './completion';
import { ask, reasonOf, usePlace } from './context';
import { formatCount } from './format';
import { useLatest } from './frame';
import { DownIcon, StopIcon } from './icons';
import { Menu } from './menu';
import { Refusal } from './notes';
import { Mentions } from './turn';
import { MODES, shortModel } from './words';

/** In place of what a switch costs until it is told: nothing moves then. */
const NOT_YET = '\u00a0';

/** What the rest of the panel may do with the prompt. */
export interface IComposer {
  /** Put a text into the box, in front of what is there. */
  take: (text: string) => void;
  /** Put a text where the caret is: a mention that was dropped. */
  insert: (text: string) => void;
  focus: () => void;
  isEmpty: () => boolean;
}

interface IComposerProps {
  conversation: IConversation;
  isRunning: boolean;
  isStopping: boolean;
  isOff: boolean;
  stop: () => void;
  /** Send a prompt; rejects with why it was refused. */
  send: (text: string, images: readonly IImage[]) => Promise<void>;
}

export const Composer = React.forwardRef<IComposer, IComposerProps>(
  function Composer(props, handle) {
    const { conversation, isRunning, isStopping, isOff, stop, send } = props;
    const { host, actions } = usePlace();
    const [text, setText] = React.useState('');
    const [pictures, setPictures] = React.useState<readonly IPicture[]>([]);
    const [known, setKnown] = React.useState<Readonly<Record<string, string>>>({});
    const [refused, setRefused] = React.useState('');
    const [isOver, setIsOver] = React.useState(false);
    const box = React.useRef<HTMLTextAreaElement>(null);
    const under = React.useRef<HTMLDivElement>(null);
    const caret = React.useRef<number | null>(null);
    const completion = useCompletion(host);
    const history = useHistory(conversation);
    const listId = React.useId();
    const { offered } = completion;

    const put = useLatest((next: string, at: number) => {
      setText(next);
      caret.current = at;
      completion.close();
    });
    React.useLayoutEffect(() => {
      if (caret.current !== null && box.current) {
        box.current.setSelectionRange(caret.current, caret.current);
        caret.current = null;
      }
      if (box.current && under.current) {
        under.current.scrollTop = box.current.scrollTop;
      }
    });
    const insert = useLatest((more: string) => {
      const at = box.current?.selectionStart ?? text.length;
      const end = box.current?.selectionEnd ?? at;
      const gap = at > 0 && !/\s$/.test(text.slice(0, at)) ? ' ' : '';
      const next = `${text.slice(0, at)}${gap}${more} ${text.slice(end)}`;
      put(next, at + gap.length + more.length + 1);
      box.current?.focus();
    });
    React.useImperativeHandle(
      handle,
      () => ({
        take: more => {
          const now = box.current?.value ?? '';
          put(now === '' ? more : `${more}\n\n${now}`, more.length);
          box.current?.focus();
        },
        insert,
        focus: () => box.current?.focus(),
        isEmpty: () => (box.current?.value ?? '') === ''
      }),
      [put, insert]
    );

    const submit = (): void => {
      if (text.trim() === '' && pictures.length === 0) {
        box.current?.focus();
        return;
      }
      const images = pictures.map(({ media_type, data, name }) => ({ media_type, data, name }));
      const [sent, along] = [text, pictures];
      put('', 0);
      setPictures([]);
      setRefused('');
      history.add(sent);
      send(sent, images).catch((error: unknown) => {
        // What was refused goes back, in front of what was typed meanwhile.
        setText(now => (now === '' ? sent : `${sent}\n\n${now}`));
        setPictures(now => [...along, ...now]);
        setRefused(reasonOf(error));
      });
    };
    const take = (item: ICompletion): void => {
      if (!offered) {
        return;
      }
      const word = item.text.trimEnd();
      const rest = text.slice(offered.cursor);
      const gap = /\/$/.test(word) || /^\s/.test(rest) ? '' : ' ';
      put(
        `${text.slice(0, offered.from)}${word}${gap}${rest}`,
        offered.from + word.length + gap.length
      );
      if (word.startsWith('@')) {
        setKnown(before => ({ ...before, [word]: item.detail }));
      }
      box.current?.focus();
    };
    const attach = (files: readonly File[]): void => {
      readPictures(files, pictures).then(
        ({ pictures: more, refused: why }) => {
          setPictures(before => [...before, ...more]);
          setRefused(why);
        },
        (error: unknown) => {
          setRefused(reasonOf(error));
        }
      );
    };

    const onKey = (event: React.KeyboardEvent<HTMLTextAreaElement>): void => {
      if (event.nativeEvent.isComposing || event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      const node = event.currentTarget;
      if (
        offered &&
        onListKey(
          event,
          completion,
          () => {
            const item = offered.items[offered.at];
            if (item) {
              take(item);
            }
          },
          takesEnter(offered, text)
        )
      ) {
        event.preventDefault();
        event.stopPropagation();
        return;
      }
      if (event.key === 'Enter' && event.shiftKey === (actions.sendOn === 'shift-enter')) {
        event.preventDefault();
        submit();
        return;
      }
      if ((event.key === 'ArrowUp' || event.key === 'ArrowDown') && !event.shiftKey) {
        const line = lineOf(node, under.current);
        const isUp = event.key === 'ArrowUp';
        const past = (isUp ? line.isFirst : line.isLast) ? history.go(isUp ? -1 : 1, text) : null;
        if (past !== null) {
          event.preventDefault();
          put(past, past.length);
        }
      }
    };

    const chips = [
      ...Object.entries(known)
        .filter(([label]) => isMentioned(text, label))
        .map(([label, detail]) => ({
          label,
          detail,
          remove: () => {
            put(text.split(label).join('').replace(/ {2,}/g, ' '), 0);
            box.current?.focus();
          }
        })),
      ...pictures.map((picture, at) => ({
        label: picture.name,
        detail: formatBytes(picture.bytes),
        remove: () => {
          setPictures(before => before.filter((_, index) => index !== at));
          box.current?.focus();
        }
      }))
    ];
    const typed = offered ? text.slice(offered.from, offered.cursor) : '';

    return (
      <>
        <Refusal
          text={refused}
          close={() => {
            setRefused('');
            box.current?.focus();
          }}
        />
        {offered && <CompletionList id={listId} offered={offered} typed={typed} take={take} />}
        <div
          className="jctx-input"
          onDragOver={event => {
            if (canTake(event.dataTransfer)) {
              event.preventDefault();
              setIsOver(true);
            }
          }}
          onDragLeave={() => {
            setIsOver(false);
          }}
          onDrop={event => {
            event.preventDefault();
            setIsOver(false);
            const files = [...event.dataTransfer.files];
            if (files.length > 0) {
              attach(files);
            } else {
              insert(event.dataTransfer.getData('text/plain'));
            }
          }}
        >
          <Chips chips={chips} />
          <div className="jctx-box">
            <div className="under" ref={under} aria-hidden="true">
              <Mentions text={text} />
              {'\u200b'}
            </div>
            <textarea
              ref={box}
              rows={1}
              value={text}
              disabled={isOff}
              spellCheck={false}
              placeholder="Ask, @ to mention, / for commands"
              aria-label="Prompt"
              aria-autocomplete="list"
              aria-haspopup="listbox"
              aria-controls={offered ? listId : undefined}
              aria-activedescendant={offered ? `${listId}-${offered.at}` : undefined}
              onChange={event => {
                setText(event.target.value);
                history.leave();
                completion.ask(event.target.value, event.target.selectionStart);
              }}
              onKeyDown={onKey}
              onBlur={completion.close}
              onScroll={event => {
                if (under.current) {
                  under.current.scrollTop = event.currentTarget.scrollTop;
                }
              }}
              onPaste={event => {
                const files = [...event.clipboardData.files];
                if (files.length > 0) {
                  event.preventDefault();
                  attach(files);
                }
              }}
            />
          </div>
          <div className="bar">
            <Pickers conversation={conversation} isOff={isOff} refuse={setRefused} />
            <span className="grow" />
            <Estimate text={text} pictures={pictures} isOff={isOff} />
            <button
              type="button"
              className={isStopping ? 'plain stop stopping' : 'plain stop'}
              disabled={!isRunning}
              title={isStopping ? 'Press again to interrupt the kernel' : 'Stop (Ctrl .)'}
              onClick={stop}
            >
              <span className="jctx-same">
                <span className="jctx-stopword">
                  {!isStopping && <StopIcon />}
                  {isStopping ? 'Stopping…' : 'Stop'}
                </span>
                <span className="sizer" aria-hidden="true">
                  Stopping…
                </span>
              </span>
            </button>
            <button
              type="button"
              className={isRunning ? 'plain send' : 'primary send'}
              disabled={isOff}
              onClick={submit}
            >
              <Same as="Queue" say={isRunning ? 'Queue' : 'Send'} />
            </button>
          </div>
          {isOver && <div className="jctx-drop" />}
        </div>
      </>
    );
  }
);

/** Do what a key does in the list; whether it did anything. */
function onListKey(
  event: React.KeyboardEvent,
  completion: { move: (by: number) => void; close: () => void },
  take: () => void,
  isEnterOurs: boolean
): boolean {
  switch (event.key) {
    case 'ArrowDown':
      completion.move(1);
      return true;
    case 'ArrowUp':
      completion.move(-1);
      return true;
    case 'Escape':
      completion.close();
      return true;
    case 'Tab':
      take();
      return true;
    case 'Enter':
      if (isEnterOurs && !event.shiftKey) {
        take();
        return true;
      }
      return false;
    default:
      return false;
  }
}

function canTake(data: DataTransfer): boolean {
  return data.types.includes('Files') || data.types.includes('text/plain');
}

function isMentioned(text: string, label: string): boolean {
  const at = text.indexOf(label);
  return at >= 0 && !/[\w.]/.test(text.charAt(at + label.length));
}

/** Whether the caret is on the first, and on the last line that is seen. */
function lineOf(
  box: HTMLTextAreaElement,
  under: HTMLElement | null
): { isFirst: boolean; isLast: boolean } {
  const { value, selectionStart: at, selectionEnd } = box;
  if (at !== selectionEnd) {
    return { isFirst: false, isLast: false };
  }
  const isFirst = !value.slice(0, at).includes('\n');
  const isLast = !value.slice(at).includes('\n');
  if (!under || (!isFirst && !isLast)) {
    return { isFirst, isLast };
  }
  const top = (offset: number): number | null => topAt(under, offset);
  const here = top(at);
  return {
    isFirst: isFirst && here === top(0),
    isLast: isLast && here === top(value.length)
  };
}

/** How high the character at `offset` stands; the same text stands in `under`. */
function topAt(under: HTMLElement, offset: number): number | null {
  const page = under.ownerDocument;
  const texts = page.createTreeWalker(under, NodeFilter.SHOW_TEXT);
  let left = offset;
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const length = node.textContent?.length ?? 0;
    if (left < length || (left === length && node === under.lastChild)) {
      const range = page.createRange();
      range.setStart(node, left);
      range.setEnd(node, Math.min(length, left + 1));
      return Math.round(range.getBoundingClientRect().top);
    }
    left -= length;
  }
  return null;
}

interface IHistory {
  add: (text: string) => void;
  leave: () => void;
  /** The prompt before or after; null at the ends. `now` is kept for the way back. */
  go: (by: -1 | 1, now: string) => string | null;
}

/** A prompt in an item that is so long may be cut, so it is not sent again from here. */
const CUT_CHARS = 20_000;

/** The prompts of this conversation, then what was sent from here, commands too; newest last. */
function useHistory(conversation: IConversation): IHistory {
  const sent = React.useRef<string[]>([]);
  const place = React.useRef<{ at: number; list: readonly string[]; draft: string } | null>(null);
  const { log, live } = conversation;
  return {
    add: text => {
      sent.current.push(text);
      place.current = null;
    },
    leave: () => {
      place.current = null;
    },
    go: (by, now) => {
      if (!place.current) {
        const told = [...log, ...(live ? [live] : [])].flatMap(entry =>
          entry.kind === 'turn' && entry.prompt.length < CUT_CHARS ? [entry.prompt] : []
        );
        const list = [...told.filter(text => !sent.current.includes(text)), ...sent.current];
        place.current = { at: list.length, list, draft: now };
      }
      const { at, list, draft } = place.current;
      const next = at + by;
      if (next < 0 || next > list.length) {
        return null;
      }
      place.current.at = next;
      return next === list.length ? draft : (list[next] ?? draft);
    }
  };
}

/** So long nothing is typed before a prompt is counted, in milliseconds. */
const ESTIMATE_MS = 300;

interface IEstimate {
  text: string;
  pictures: readonly IPicture[];
  isOff: boolean;
}

/** About how many tokens the prompt takes; nothing for a command, or where the kernel tells none. */
function Estimate({ text, pictures, isOff }: IEstimate): React.ReactElement | null {
  const { host } = usePlace();
  const [found, setFound] = React.useState<CallResult<'estimate'> | null>(null);
  const isCounted = !isOff && !text.startsWith('/') && (text.trim() !== '' || pictures.length > 0);
  React.useEffect(() => {
    if (!isCounted) {
      setFound(null);
      return;
    }
    let isOld = false;
    const timer = setTimeout(() => {
      const images = pictures.map(({ width_px, height_px }) => ({ width_px, height_px }));
      ask(host, 'estimate', { text, images }).then(
        answer => {
          if (!isOld) {
            setFound(answer);
          }
        },
        () => {
          if (!isOld) {
            setFound(null); // no figure is better than an old one
          }
        }
      );
    }, ESTIMATE_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [host, text, pictures, isCounted]);
  if (!isCounted || !found) {
    return null;
  }
  const more = found.mentions > 0 ? ' What is mentioned is looked up when it is sent.' : '';
  return (
    <span className="jctx-est small wide-only" title={`About what the prompt takes.${more}`}>
      {`≈ ${formatCount(found.tokens)}${found.mentions > 0 ? ' + @' : ''} tok`}
    </span>
  );
}

interface IPickers {
  conversation: IConversation;
  isOff: boolean;
  refuse: (why: string) => void;
}

function Pickers({ conversation, isOff, refuse }: IPickers): React.ReactElement | null {
  const { host } = usePlace();
  const { session, models } = conversation;
  const [priced, setPriced] = React.useState<CallResult<'models'>['rows']>([]);
  if (session === null || isOff) {
    return null;
  }
  const attempt = (call: Promise<unknown>): void => {
    call.catch((error: unknown) => {
      refuse(reasonOf(error));
    });
  };
  const names = [...new Set([session.model, ...models])];
  const choices = priced.length > 0 ? priced : names.map(name => ({ name, help: NOT_YET }));
  const mode = MODES.find(one => one.mode === session.permission_mode) ?? MODES[0];
  return (
    <>
      <span className="jctx-pick">
        <Menu
          className="text"
          placement=""
          label={`Permissions: ${mode?.label.toLowerCase() ?? ''}`}
          title={`Permissions: ${mode?.help ?? ''}`}
          items={MODES.map(one => ({
            label: one.label,
            help: one.help,
            isChosen: one.mode === session.permission_mode,
            run: () => {
              attempt(ask(host, 'set_mode', { mode: one.mode }));
            }
          }))}
        >
          <span className="wide-only">{mode?.label}</span>
          <span className="narrow-only">{mode?.short}</span>
          <DownIcon />
        </Menu>
      </span>
      <span className="jctx-pick model">
        <Menu
          className="text"
          placement=""
          label={`Model: ${session.model}`}
          title="Model"
          onOpen={() => {
            attempt(
              ask(host, 'models', {}).then(({ rows }) => {
                setPriced(rows);
              })
            );
          }}
          items={choices.map(({ name, help }) => ({
            label: name,
            help,
            isChosen: name === session.model,
            run: () => {
              attempt(ask(host, 'set_model', { name }));
            }
          }))}
        >
          <span className="cut">{shortModel(session.model)}</span>
          <DownIcon />
        </Menu>
      </span>
    </>
  );
}
