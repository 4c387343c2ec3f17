/** The settings of panel and agent, followed live. */

import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';

import { reasonOf } from '../view/context';
import type { CurrentNotebook } from './current';
import type { GaugeDisplay } from './gauge';
import type { NotebookLink } from './link';
import { PLUGIN } from './names';
import type { IPanelSettings } from './panel';

type Values = Readonly<Record<string, unknown>>;

/** Follow the plugin's settings; `apply` gets those of the panel, at once and whenever they change. */
export async function followSettings(
  registry: ISettingRegistry,
  notebooks: CurrentNotebook,
  apply: (settings: IPanelSettings) => void
): Promise<void> {
  const settings = await registry.load(PLUGIN);
  const agent = new AgentSettings(notebooks);
  const read = (): void => {
    const { composite } = settings;
    apply({
      gauge: composite['gauge'] as GaugeDisplay,
      sendOn: composite['enterSends'] === false ? 'shift-enter' : 'enter',
      remoteImages: composite['remoteImages'] === true
    });
    agent.values = (composite['agent'] ?? {}) as Values;
  };
  settings.changed.connect(read);
  read();
}

/**
 * Tells each kernel the settings of the agent that a person made here: all of them when its
 * conversation is opened, later what changed. One that is taken back goes as null: the kernel's own
 * counts again.
 */
class AgentSettings {
  constructor(private readonly _notebooks: CurrentNotebook) {
    _notebooks.feedChanged.connect(this._onFeed, this);
  }

  set values(values: Values) {
    const before = this._values;
    this._values = values;
    const changed: Record<string, unknown> = {};
    for (const name of new Set([...Object.keys(before), ...Object.keys(values)])) {
      if (before[name] !== values[name]) {
        changed[name] = values[name] ?? null;
      }
    }
    for (const link of this._notebooks.links) {
      if (link.feed.state.is === 'open') {
        this._tell(link, changed);
      }
    }
  }

  private _onFeed(_: unknown, link: NotebookLink): void {
    const { feed } = link;
    const { epoch } = feed.conversation;
    if (feed.state.is === 'open' && epoch !== null && this._told.get(link) !== epoch) {
      this._told.set(link, epoch);
      this._tell(link, this._values);
    }
  }

  private _tell(link: NotebookLink, settings: Values): void {
    if (Object.keys(settings).length === 0) {
      return;
    }
    link.ask('configure', { settings }).then(
      ({ refused }) => {
        for (const [name, why] of Object.entries(refused)) {
          Notification.warning(`Agent: the setting ${name} was refused. ${why}`);
        }
      },
      (error: unknown) => {
        Notification.warning(`Agent: the settings were not taken. ${reasonOf(error)}`);
      }
    );
  }

  private _values: Values = {};
  private readonly _told = new WeakMap<NotebookLink, string>();
}
