/** Puts the agent into a notebook's kernel, silently, or says what is missing there. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';

import { PROTOCOL } from '../events';
import { SilentError, unlessSilent } from '../silence';
import type { Activity } from '../silence';

/**
 * How far a kernel is. `detail` says what to do; `command` is to be typed into a cell, or into a
 * terminal if no `%` begins it; null if nothing is to be typed.
 */
export type Loading =
  | { readonly is: 'none' | 'starting' | 'busy' | 'loading' | 'loaded' }
  | {
      readonly is: 'missing';
      readonly title: string;
      readonly detail: string;
      readonly command: string | null;
    };

/**
 * The expression that loads the extension, and whose value is the package's version.
 *
 * It is no code: an expression binds no name, and what it prints or raises shows up in no cell.
 * An extension that is there already is left alone, or its conversation would be closed.
 */
export const EXPRESSION =
  "(lambda ip: (ip.extension_manager.load_extension('jupyter_ctx')," +
  " __import__('jupyter_ctx').__version__)[1])(__import__('IPython').get_ipython())";

const ANSWER = 'version';

/** Load the extension; resolves when the kernel has answered. Never rejects. */
export async function load(kernel: Kernel.IKernelConnection, activity: Activity): Promise<Loading> {
  try {
    const { language_info: language } = await unlessSilent(activity, kernel.info);
    if (language.name !== 'python') {
      return otherLanguage(language.name);
    }
    const future = kernel.requestExecute({
      code: '',
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { [ANSWER]: EXPRESSION }
    });
    return readReply((await unlessSilent(activity, future.done)).content);
  } catch (error) {
    if (error instanceof SilentError) {
      return SILENT;
    }
    return { ...DEAD, detail: `${DEAD.detail} (${String(error)})` };
  }
}

/** Return what an answer to the expression means. */
export function readReply(content: KernelMessage.IExecuteReplyMsg['content']): Loading {
  if (content.status !== 'ok') {
    return { is: 'busy' }; // a cell before it failed, and took the whole queue with it
  }
  const found = content.user_expressions[ANSWER] as
    { readonly status?: string; readonly ename?: string; readonly evalue?: string } | undefined;
  if (found?.status === 'ok') {
    return { is: 'loaded' };
  }
  const { ename = 'Error', evalue = '' } = found ?? {};
  if (ename === 'ModuleNotFoundError' && evalue.includes("'jupyter_ctx'")) {
    return NOT_INSTALLED;
  }
  return {
    is: 'missing',
    title: 'The agent could not be loaded.',
    detail: `${ename}: ${evalue}. To see all of it, run this in a cell.`,
    command: '%load_ext jupyter_ctx'
  };
}

/**
 * What is to be said of a kernel that nothing can be asked, null if it can be. `isHeard`: the
 * extension in it has spoken, whatever the kernel has said of itself: a page that was loaded while a
 * cell asks hears of its status only when the cell ends. `hasBegun`: a kernel was asked for, or none
 * was for a while; before that there is none because the notebook is just being opened.
 */
export function hindrance(
  context: ISessionContext,
  { isHeard, hasBegun }: { isHeard: boolean; hasBegun: boolean }
): Loading | null {
  const kernel = context.session?.kernel;
  if (!kernel) {
    const isDead = context.hasNoKernel && hasBegun;
    return { is: isDead || context.isReady ? 'none' : 'starting' };
  }
  switch (kernel.status) {
    case 'dead':
    case 'terminating':
      return DEAD;
    case 'unknown':
      return isHeard ? null : { is: 'starting' };
    case 'starting':
    case 'restarting':
    case 'autorestarting':
      return { is: 'starting' };
    case 'busy':
    case 'idle':
      return kernel.connectionStatus === 'disconnected' ? CUT_OFF : null;
  }
}

export const NOT_INSTALLED: Loading = {
  is: 'missing',
  title: 'jupyter_ctx is not installed in this kernel.',
  detail: 'Run this in a cell. Then restart the kernel.',
  command: '%pip install jupyter-ctx'
};

const DEAD = {
  is: 'missing',
  title: 'The kernel is dead.',
  detail: 'Restart it (Kernel menu); the conversation is kept.',
  command: null
} as const satisfies Loading;

export const SILENT: Loading = {
  is: 'missing',
  title: 'The kernel does not answer.',
  detail: 'Try again, or restart it (Kernel menu); the conversation is kept.',
  command: null
};

const CUT_OFF = {
  is: 'missing',
  title: 'No connection to the kernel.',
  detail: 'The server may be stopped, or the network is down. What runs goes on.',
  command: null
} as const satisfies Loading;

const VERSION = /^[\w.!+-]{1,40}$/;

/** The kernel's own package, of version `found`, is older or newer than this page, by `protocol`. */
export function otherVersion(found: unknown, protocol: unknown): Loading {
  const isVersion = typeof found === 'string' && VERSION.test(found);
  const name = `jupyter_ctx${isVersion ? ` ${found}` : ''} in this kernel`;
  return typeof protocol === 'number' && protocol > PROTOCOL
    ? {
        is: 'missing',
        title: `${name} is newer than this page.`,
        detail: 'Run this in a terminal, where JupyterLab is. Then start it anew.',
        command: 'pip install --upgrade jupyter-ctx'
      }
    : {
        is: 'missing',
        title: `${name} is older than this page.`,
        detail: 'Run this in a cell. Then restart the kernel and reload the page.',
        command: '%pip install --upgrade jupyter-ctx'
      };
}

function otherLanguage(name: string): Loading {
  return {
    is: 'missing',
    title: `This kernel runs ${name}, not Python.`,
    detail: 'The agent lives in a Python kernel: choose one in the Kernel menu.',
    command: null
  };
}
