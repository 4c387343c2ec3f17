/** Small helpers for what is drawn inside a notebook without React. */

/** Return a new element; a button is none of a form. */
export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className = '',
  text = ''
): HTMLElementTagNameMap[K] {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = text;
  if (node instanceof HTMLButtonElement) {
    node.type = 'button';
  }
  return node;
}

/** Whether a key was pressed alone. */
export function keyed({ ctrlKey, metaKey, altKey, isComposing }: KeyboardEvent): boolean {
  return !ctrlKey && !metaKey && !altKey && !isComposing;
}

/** Call `act` at a click of a person; a script's does nothing. */
export function onPerson(button: HTMLElement, act: () => void): void {
  button.addEventListener('click', event => {
    event.preventDefault();
    if (event.isTrusted) {
      act();
    }
  });
}
