/** Small helpers of the view: one update a frame, clean-up. */

import * as React from 'react';

export interface IDisposable {
  dispose(): void;
}

/**
 * Return `value` as of the last frame: however often it changes, one render a frame follows.
 *
 * The first value is there at once. Where no frame comes (a hidden tab) the newest waits.
 */
export function useFrame<T>(value: T): T {
  const [shown, setShown] = React.useState(value);
  const newest = React.useRef(value);
  const frame = React.useRef(0);
  React.useEffect(() => {
    newest.current = value;
    if (frame.current === 0 && value !== shown) {
      frame.current = requestAnimationFrame(() => {
        frame.current = 0;
        setShown(() => newest.current);
      });
    }
  }, [value, shown]);
  React.useEffect(
    () => () => {
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    },
    []
  );
  return shown;
}

/** Return the last of `list` that `is` finds. */
export function findLast<T, S extends T>(
  list: readonly T[],
  is: (one: T) => one is S
): S | undefined {
  for (let at = list.length - 1; at >= 0; at -= 1) {
    const one = list[at] as T;
    if (is(one)) {
      return one;
    }
  }
  return undefined;
}

/** Return a function that never changes and calls the newest `act`. */
export function useLatest<A extends readonly unknown[], R>(
  act: (...args: A) => R
): (...args: A) => R {
  const newest = React.useRef(act);
  React.useLayoutEffect(() => {
    newest.current = act;
  });
  return React.useCallback((...args: A) => newest.current(...args), []);
}
