import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { KernelClient } from '../client';
import type { Respond } from '../client';
import { PART_CHARS } from '../events';
import type { IPart, IRequest } from '../events';
import { NotebookLink } from '../lab/link';
import { SILENT, load as loadInto } from '../lab/load';
import { Activity, SILENT_MS } from '../silence';
import type { PanelEvent } from '../state';
import { load } from './fixtures';

/** A comm that remembers what was done to it, and lets a test speak for the kernel. */
class FakeComm {
  constructor(readonly commId: string) {}
  onMsg: (message: unknown) => void = () => undefined;
  onClose: (message: unknown) => void = () => undefined;
  isDisposed = false;
  readonly done: string[] = [];
  readonly subshellStarted = Promise.resolve();
  open(): void {
    this.done.push('open');
  }
  close(): void {
    this.done.push('close');
  }
  send(message: { type: string }): void {
    this.done.push(`send ${message.type}`);
  }
  say(name: string): void {
    this.ask(load(name) as object);
  }
  ask(data: object): void {
    this.onMsg({ content: { data } });
  }
}

type Target = (comm: FakeComm, message: unknown) => void;

/** What the client uses of a kernel connection; `inKernel` are the comms it knows of. */
class FakeKernel {
  constructor(readonly inKernel: string[] = []) {}
  readonly statusChanged = new Signal<this, string>(this);
  readonly connectionStatusChanged = new Signal<this, string>(this);
  readonly iopubMessage = new Signal<this, object>(this);
  readonly username = 'user';
  readonly clientId = 'client';
  readonly supportsSubshells = true;
  status = 'idle';
  connectionStatus = 'connected';
  /** What the answer to the next questions waits for. */
  answers: Promise<unknown> = Promise.resolve();
  isDisposed = false;
  info: Promise<unknown> = Promise.resolve({});
  readonly comms: FakeComm[] = [];
  readonly asked: unknown[] = [];
  target: Target | null = null;

  registerCommTarget(_: string, target: Target): void {
    this.target = target;
  }
  removeCommTarget(): void {
    this.target = null;
  }
  createComm(_: string, id = `own-${this.comms.length}`): FakeComm {
    const comm = new FakeComm(id);
    this.comms.push(comm);
    return comm;
  }
  sendControlMessage(message: unknown): { done: Promise<unknown> } {
    this.asked.push(message);
    const comms = Object.fromEntries(this.inKernel.map(id => [id, { target_name: 'jupyter_ctx' }]));
    return { done: this.answers.then(() => ({ content: { status: 'ok', comms } })) };
  }
  /** Tell, as a kernel does, that request `id` begins or ends; the newest message sets the status. */
  tell(status: 'busy' | 'idle', id: string): void {
    this.status = status;
    this.statusChanged.emit(status);
    this.iopubMessage.emit({
      header: { msg_type: 'status' },
      parent_header: { msg_id: id },
      content: { execution_state: status }
    });
  }
  announce(data: object = {}): FakeComm {
    const comm = new FakeComm('kernel');
    this.target?.(comm, { content: { data } });
    return comm;
  }
}

function link(
  kernel: FakeKernel,
  respond: Respond = () => ({ ok: true, result: {} })
): { client: KernelClient; events: PanelEvent[] } {
  const events: PanelEvent[] = [];
  const client = new KernelClient(
    kernel as unknown as Kernel.IKernelConnection,
    event => events.push(event),
    respond
  );
  return { client, events };
}

function request(fields: object = {}): object {
  return { version: 1, type: 'request', id: 'r1', op: 'notebook', args: {}, to: null, ...fields };
}

/** The answers that went to the kernel, on the control channel. */
function answers(kernel: FakeKernel): { comm_id: string; data: IPart<'reply'> }[] {
  return kernel.asked
    .map(message => message as KernelMessage.IMessage)
    .filter(({ header }) => header.msg_type === 'comm_msg')
    .map(({ channel, content }) => {
      expect(channel).toBe('control');
      return content as unknown as { comm_id: string; data: IPart<'reply'> };
    });
}

/** A notebook of which the panel is shown, and its session context, which a test speaks for. */
function shown(fields: object): {
  ofNotebook: NotebookLink;
  context: { statusChanged: Signal<object, string> };
} {
  const context = {
    ...fields,
    kernelChanged: new Signal<object, void>({}),
    statusChanged: new Signal<object, string>({}),
    connectionStatusChanged: new Signal<object, string>({})
  };
  const ofNotebook = new NotebookLink(context as unknown as ISessionContext, () => ({
    ok: true,
    result: {}
  }));
  ofNotebook.show();
  return { ofNotebook, context };
}

/** Let every promise that is already resolved take effect. */
const settled = (): Promise<void> =>
  new Promise(resolve => {
    setTimeout(resolve);
  });

const types = (events: PanelEvent[]): string[] => events.map(({ type }) => type);

describe('KernelClient', () => {
  it('opens no comm to a kernel that has none, and asks on the control channel', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();

    expect(kernel.comms).toEqual([]);
    expect(events).toEqual([]);
    expect(kernel.asked).toMatchObject([
      { channel: 'control', header: { msg_type: 'comm_info_request' } }
    ]);
  });

  it('hears the kernel that announces itself', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();

    const comm = kernel.announce();
    comm.say('hello');
    comm.say('context_measured');

    expect(types(events)).toEqual(['hello', 'context']);
    expect(comm.done).toEqual(['send hello']);
  });

  it('takes a first message that comes with the opening', () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);

    kernel.announce(load('hello') as object);

    expect(types(events)).toEqual(['hello']);
  });

  it('opens a comm of its own where the extension is loaded already', async () => {
    const kernel = new FakeKernel(['theirs']);
    const { events } = link(kernel);
    await settled();

    expect(kernel.comms.map(({ commId, done }) => [commId, done])).toEqual([
      ['theirs', []],
      ['own-1', ['open']]
    ]);
    kernel.comms[1]?.say('hello');
    expect(types(events)).toEqual(['hello']);
  });

  it('listens to a comm that is there while the kernel is too busy to take a new one', async () => {
    const kernel = new FakeKernel(['theirs']);
    kernel.info = new Promise(() => undefined);
    const { events } = link(kernel);
    await settled();

    kernel.comms[0]?.say('context_measured');

    expect(kernel.comms).toHaveLength(1);
    expect(types(events)).toEqual(['context']);
  });

  it('does not heed an earlier comm, not even its end', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();
    const first = kernel.announce();
    const second = kernel.announce();

    first.say('context_paused');
    first.onClose({});
    second.say('hello');

    expect(types(events)).toEqual(['hello']);
  });

  it('is disconnected when its comm is closed', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();

    kernel.announce().onClose({});

    expect(types(events)).toEqual(['disconnected']);
  });

  it.each(['restarting', 'autorestarting', 'terminating', 'dead'])(
    'is disconnected when the kernel is %s, and hears it again afterwards',
    async status => {
      const kernel = new FakeKernel();
      const { events } = link(kernel);
      await settled();
      kernel.announce();

      kernel.statusChanged.emit(status);
      kernel.announce().say('hello');

      expect(types(events)).toEqual(['disconnected', 'hello']);
    }
  );

  it('asks for the present state when the connection was lost and came back', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();
    kernel.announce().say('hello');
    kernel.inKernel.push('kernel');

    kernel.connectionStatusChanged.emit('connecting');
    kernel.connectionStatusChanged.emit('connected');
    await settled();
    kernel.comms[0]?.say('context_measured');

    expect(kernel.comms[0]?.done).toEqual(['open']);
    expect(types(events)).toEqual(['hello', 'context']);
  });

  it('is disconnected when the kernel that came back has lost the extension', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();
    kernel.announce().say('hello');

    kernel.connectionStatusChanged.emit('connecting');
    kernel.connectionStatusChanged.emit('connected');
    await settled();

    expect(types(events)).toEqual(['hello', 'disconnected']);
  });

  it('passes on why a message was refused', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();

    kernel.announce().say('refused/future_version');

    expect(types(events)).toEqual(['refused']);
  });

  it('closes on disposal the comm that it opened, and leaves the others', async () => {
    const kernel = new FakeKernel(['theirs']);
    const { client, events } = link(kernel);
    await settled();

    client.dispose();
    kernel.comms[1]?.say('hello');

    expect(kernel.comms.map(({ done }) => done)).toEqual([[], ['open', 'close']]);
    expect(kernel.target).toBeNull();
    expect(events).toEqual([]);
  });

  it('answers a request at once, on the control channel of the comm that asked', async () => {
    const kernel = new FakeKernel();
    const asked: IRequest[] = [];
    const { events } = link(kernel, one => {
      asked.push(one);
      return { ok: true, result: { cells: [] } };
    });
    await settled();

    kernel.announce().ask(request());

    expect(asked).toMatchObject([{ op: 'notebook' }]);
    expect(answers(kernel)).toEqual([
      {
        comm_id: 'kernel',
        data: {
          version: 1,
          type: 'reply',
          id: 'r1',
          client: 'client',
          part: 1,
          parts: 1,
          text: '{"ok":true,"result":{"cells":[]}}'
        }
      }
    ]);
    expect(events).toEqual([]);
  });

  it('answers nothing that is meant for another page, and nothing twice', async () => {
    const kernel = new FakeKernel();
    link(kernel);
    await settled();
    const first = kernel.announce();
    const second = kernel.announce();

    first.ask(request({ id: 'a', to: 'somebody' }));
    first.ask(request({ id: 'b', to: 'client' }));
    second.ask(request({ id: 'b', to: 'client' }));

    expect(answers(kernel).map(({ data }) => data.id)).toEqual(['b']);
  });

  it('sends a long answer in parts that are short enough and tear no character', async () => {
    const kernel = new FakeKernel();
    const source = `${'x'.repeat(PART_CHARS - 30)}${'\u{1F600}"\\\u0001'.repeat(20_000)}`;
    link(kernel, () => ({ ok: true, result: { source } }));
    await settled();

    kernel.announce().ask(request());

    const parts = answers(kernel).map(({ data }) => data);
    const bytes = parts.map(part => new TextEncoder().encode(JSON.stringify(part)).length);
    expect(Math.max(...bytes)).toBeLessThan(64 * 1024);
    expect(parts.map(({ part }) => part)).toEqual(parts.map((_, at) => at + 1));
    expect(parts.every(({ parts: n }) => n === parts.length)).toBe(true);
    expect(parts.every(({ text }) => !/[\ud800-\udbff]$/.test(text))).toBe(true);
    expect(JSON.parse(parts.map(({ text }) => text).join(''))).toEqual({
      ok: true,
      result: { source }
    });
  });

  it('lets the gauge say that a request of an unknown kind was refused', async () => {
    const kernel = new FakeKernel();
    const { events } = link(kernel);
    await settled();

    kernel.announce().ask(request({ op: 'format_disk' }));

    expect(types(events)).toEqual(['refused']);
    expect(answers(kernel)).toEqual([]);
  });
});

describe('a kernel that does not answer', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function silent(status: string): { kernel: FakeKernel; speak: () => void } {
    const kernel = new FakeKernel(['first']);
    kernel.status = status;
    let speak = (): void => undefined;
    kernel.answers = new Promise<void>(resolve => {
      speak = resolve;
    });
    return {
      kernel,
      speak: () => {
        speak();
      }
    };
  }

  it('is waited for while it runs something, and a while once it is idle', async () => {
    const { kernel } = silent('busy');
    const { client } = link(kernel);
    const told: boolean[] = [];
    void client.probed.then(isAnswered => told.push(isAnswered));
    await vi.advanceTimersByTimeAsync(100 * SILENT_MS);
    kernel.tell('idle', 'unheard');
    await vi.advanceTimersByTimeAsync(SILENT_MS - 1);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(told).toEqual([false]);
    expect(client.isHeard).toBe(false);
  });

  it('is waited for while a cell runs, whatever was answered in between', async () => {
    const { kernel } = silent('idle');
    const { client } = link(kernel);
    const told: boolean[] = [];
    void client.probed.then(isAnswered => told.push(isAnswered));
    kernel.tell('busy', 'cell');
    kernel.tell('busy', 'question');
    kernel.tell('idle', 'question');
    expect(client.activity.isIdle).toBe(false);
    await vi.advanceTimersByTimeAsync(100 * SILENT_MS);
    expect(told).toEqual([]);
    kernel.tell('idle', 'cell');
    expect(client.activity.isIdle).toBe(true);
    await vi.advanceTimersByTimeAsync(SILENT_MS);
    expect(told).toEqual([false]);
  });

  it('is busy with what ran before the page came, until that ends or the kernel does', () => {
    const ends: ((kernel: FakeKernel) => void)[] = [
      kernel => {
        kernel.tell('idle', 'unheard');
      },
      kernel => {
        kernel.tell('busy', 'cell');
        kernel.iopubMessage.emit({
          header: { msg_type: 'execute_input' },
          parent_header: { msg_id: 'cell' }
        });
        kernel.tell('idle', 'cell');
      },
      kernel => {
        for (const status of ['restarting', 'idle']) {
          kernel.status = status;
          kernel.statusChanged.emit(status);
        }
      },
      kernel => {
        kernel.status = 'idle';
        kernel.connectionStatusChanged.emit('connected');
      }
    ];
    for (const end of ends) {
      const { kernel } = silent('busy');
      const { client } = link(kernel);
      kernel.tell('busy', 'question');
      kernel.tell('idle', 'question');
      expect(client.activity.isIdle).toBe(false);
      end(kernel);
      expect(client.activity.isIdle).toBe(true);
      client.dispose();
    }
  });

  it('is heard when its answer comes late, and when it is asked once more', async () => {
    const { kernel, speak } = silent('idle');
    const { client } = link(kernel);
    await vi.advanceTimersByTimeAsync(SILENT_MS);
    expect(await client.probed).toBe(false);
    client.probe();
    speak();
    await vi.advanceTimersByTimeAsync(0);
    expect(await client.probed).toBe(true);
    expect(client.isHeard).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is said to be silent where the extension was to be loaded', async () => {
    const { kernel } = silent('idle');
    const never = new Promise<never>(() => undefined);
    const asked = Object.assign(kernel, {
      info: Promise.resolve({ language_info: { name: 'python' } }),
      requestExecute: () => ({ done: never })
    });
    const connection = asked as unknown as Kernel.IKernelConnection;
    const loading = loadInto(connection, new Activity(connection));
    await vi.advanceTimersByTimeAsync(SILENT_MS);
    expect(await loading).toBe(SILENT);
  });

  it('is said to be silent in the panel, and is loaded once it says something', async () => {
    const kernel = new FakeKernel();
    let reply = new Promise<unknown>(() => undefined);
    let runs = 0;
    Object.assign(kernel, {
      info: Promise.resolve({ language_info: { name: 'python' } }),
      requestExecute: () => ({ done: ((runs += 1), reply) })
    });
    const { ofNotebook, context } = shown({ session: { kernel } });
    await vi.advanceTimersByTimeAsync(SILENT_MS - 1);
    expect(ofNotebook.loading.is).toBe('loading');
    await vi.advanceTimersByTimeAsync(100 * SILENT_MS);
    expect(ofNotebook.loading).toBe(SILENT);
    expect(runs).toBe(1);

    reply = new Promise(resolve => {
      const content = { status: 'aborted' };
      setTimeout(() => {
        kernel.announce({ version: 1, type: 'hello', epoch: 'e', package_version: '1.0' });
        resolve({ content });
      }, SILENT_MS / 2);
    });
    for (const status of ['busy', 'idle']) {
      kernel.status = status;
      context.statusChanged.emit(status);
      kernel.statusChanged.emit(status);
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(runs).toBe(2);
    await vi.advanceTimersByTimeAsync(SILENT_MS);
    expect(ofNotebook.loading).toEqual({ is: 'loaded' });
    ofNotebook.dispose();
  });

  it('is said to be busy where a cell came before the question', async () => {
    const kernel = new FakeKernel();
    Object.assign(kernel, {
      info: Promise.resolve({ language_info: { name: 'python' } }),
      requestExecute: () => ({ done: new Promise<never>(() => undefined) })
    });
    const { ofNotebook } = shown({ session: { kernel } });
    await vi.advanceTimersByTimeAsync(1_000);
    kernel.tell('busy', 'cell');
    expect(ofNotebook.loading.is).toBe('loading');
    await vi.advanceTimersByTimeAsync(1_000);
    expect(ofNotebook.loading.is).toBe('busy');
    kernel.announce({ version: 1, type: 'hello', epoch: 'e', package_version: '1.0' });
    expect(ofNotebook.loading).toEqual({ is: 'loaded' });
    ofNotebook.dispose();
  });

  it('is no kernel until the notebook has begun to ask for one, or for a while', async () => {
    const [failing, waiting] = [0, 1].map(() =>
      shown({ session: null, hasNoKernel: true, isReady: false })
    ) as [ReturnType<typeof shown>, ReturnType<typeof shown>];
    expect(failing.ofNotebook.loading).toEqual({ is: 'starting' });
    failing.context.statusChanged.emit('dead');
    expect(failing.ofNotebook.loading).toEqual({ is: 'none' });
    await vi.advanceTimersByTimeAsync(SILENT_MS - 1);
    expect(waiting.ofNotebook.loading).toEqual({ is: 'starting' });
    await vi.advanceTimersByTimeAsync(1);
    expect(waiting.ofNotebook.loading).toEqual({ is: 'none' });
    failing.ofNotebook.dispose();
    waiting.ofNotebook.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});
