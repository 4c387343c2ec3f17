/** A button with a menu: arrows move, Escape and a press elsewhere close. */

import * as React from 'react';

import { CheckIcon } from './icons';

export interface IMenuItem {
  readonly label: string;
  readonly help?: string;
  /** Of a choice: whether it is the one in force. */
  readonly isChosen?: boolean;
  readonly run: () => void;
}

interface IMenu {
  /** Classes of the button, and of its menu. */
  className: string;
  placement: string;
  label: string;
  title?: string;
  items: readonly IMenuItem[];
  onOpen?: () => void;
  children: React.ReactNode;
}

export function Menu(props: IMenu): React.ReactElement {
  const { className, placement, label, title, items, onOpen, children } = props;
  const [isOpen, setIsOpen] = React.useState(false);
  const button = React.useRef<HTMLButtonElement>(null);
  const list = React.useRef<HTMLDivElement>(null);
  const close = React.useCallback((refocus: boolean) => {
    setIsOpen(false);
    if (refocus) {
      button.current?.focus();
    }
  }, []);
  useOutside([button, list], isOpen, () => {
    close(false);
  });
  React.useEffect(() => {
    if (isOpen) {
      const chosen = list.current?.querySelector<HTMLElement>('[aria-checked="true"]');
      (chosen ?? list.current?.querySelector('button'))?.focus();
    }
  }, [isOpen]);
  const onKey = (event: React.KeyboardEvent): void => {
    const buttons = [...(list.current?.querySelectorAll('button') ?? [])];
    const at = buttons.indexOf(event.target as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === 'Escape') {
      close(true);
    } else if (event.key === 'Tab') {
      close(false);
      return;
    } else if (to !== undefined) {
      buttons.at(to % buttons.length)?.focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <>
      <button
        type="button"
        ref={button}
        className={className}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-label={label}
        title={title}
        onClick={() => {
          if (!isOpen) {
            onOpen?.();
          }
          setIsOpen(!isOpen);
        }}
      >
        {children}
      </button>
      {isOpen && (
        <div
          ref={list}
          className={`jctx-list jctx-menu ${placement}`}
          role="menu"
          aria-label={label}
          tabIndex={-1}
          onKeyDown={onKey}
        >
          {items.map(item => (
            <button
              key={item.label}
              type="button"
              role={item.isChosen === undefined ? 'menuitem' : 'menuitemradio'}
              aria-checked={item.isChosen}
              tabIndex={-1}
              onClick={() => {
                close(true);
                item.run();
              }}
            >
              <span>{item.isChosen && <CheckIcon />}</span>
              <span>
                {item.label}
                {item.help !== undefined && <span className="small quiet"> {item.help}</span>}
              </span>
            </button>
          ))}
        </div>
      )}
    </>
  );
}

/** Tell of a press outside of all these nodes, while `isOn`. */
export function useOutside(
  nodes: readonly React.RefObject<HTMLElement>[],
  isOn: boolean,
  tell: () => void
): void {
  const newest = React.useRef({ nodes, tell });
  React.useEffect(() => {
    newest.current = { nodes, tell };
  });
  React.useEffect(() => {
    const page = newest.current.nodes[0]?.current?.ownerDocument;
    if (!isOn || !page) {
      return;
    }
    const onPress = (event: Event): void => {
      const { nodes, tell } = newest.current;
      if (!nodes.some(node => node.current?.contains(event.target as Node))) {
        tell();
      }
    };
    page.addEventListener('pointerdown', onPress, true);
    return () => {
      page.removeEventListener('pointerdown', onPress, true);
    };
  }, [isOn]);
}
