/** What of the agent's HTML reaches the page: JupyterLab's sanitiser, and then less. */

import type { IRenderMime } from '@jupyterlab/rendermime';

/** Elements that send, load or take input; their content stays. */
const DROPPED = 'form, button, textarea, select, input:not([type=checkbox]), map, area, datalist';
/** Elements that load what they show. */
const LOADING = 'img, audio, video, source, track, input[type=image]';
/** Attributes that name commands of JupyterLab, or load. */
const DROPPED_ATTRIBUTES = [
  'data-commandlinker-command',
  'data-commandlinker-args',
  'srcset',
  'poster',
  'background',
  'longdesc',
  'usemap',
  'ping',
  'autofocus'
];

/** Of a picture within the page, or of the notebook's own folder: nobody else hears of it. */
const LOCAL =
  /^(?:data:image\/(?:png|jpeg|gif|webp);|attachment:|(?![a-z][a-z0-9+.-]*:|[\\/]|.*\.\.[\\/]))/i;

/**
 * The sanitiser for text of the agent. Pictures of other sites become links unless `showsRemote`
 * says so: whoever asks for one tells its site that it was shown, and whatever the address says.
 */
export class AgentSanitizer implements IRenderMime.ISanitizer {
  constructor(
    private readonly _inner: IRenderMime.ISanitizer,
    private readonly _showsRemote: () => boolean
  ) {}

  readonly allowNamedProperties = false;
  readonly allowCommandLinker = false;

  getAutolink(): boolean {
    return this._inner.getAutolink?.() ?? true;
  }

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    return restrict(this._inner.sanitize(dirty, options), this._showsRemote());
  }
}

/** Return sanitised HTML without what could still act or load. */
export function restrict(html: string, showsRemote: boolean): string {
  const template = document.createElement('template'); // its content loads and runs nothing
  template.innerHTML = html;
  const { content } = template;
  for (const node of content.querySelectorAll(LOADING)) {
    const source = node.getAttribute('src') ?? '';
    const isShown = node instanceof HTMLImageElement && (LOCAL.test(source) || showsRemote);
    if (!isShown) {
      node.replaceWith(linkTo(source, node.getAttribute('alt') ?? ''));
    }
  }
  for (const node of content.querySelectorAll(DROPPED)) {
    node.replaceWith(...node.childNodes);
  }
  for (const node of content.querySelectorAll('*')) {
    restrictAttributes(node);
  }
  return template.innerHTML;
}

/** Of a link: another site, a mail, a place in the text, or a file beside the notebook. */
const FOLLOWED = /^(?:https?:|mailto:|#|(?![a-z][a-z0-9+.-]*:|[\\/]))/i;

function restrictAttributes(node: Element): void {
  if (!FOLLOWED.test((node.getAttribute('href') ?? '#').trim())) {
    node.removeAttribute('href');
  }
  for (const name of DROPPED_ATTRIBUTES) {
    node.removeAttribute(name);
  }
  if (/url\s*\(|image\s*\(|position|\\/i.test(node.getAttribute('style') ?? '')) {
    node.removeAttribute('style');
  }
  const ours = [...node.classList].filter(name => name.startsWith('jctx'));
  node.classList.remove(...ours); // nothing in an answer may look like a question of ours
}

/** Return a link in place of what would have been loaded; plain text if it is no web address. */
function linkTo(source: string, alt: string): Node {
  const label = alt || source || 'picture';
  if (!/^https?:\/\//i.test(source)) {
    return document.createTextNode(label);
  }
  const link = document.createElement('a');
  link.href = source;
  link.rel = 'noopener noreferrer nofollow';
  link.target = '_blank';
  link.textContent = label;
  return link;
}
