// One socket for everything that changes. It comes back by itself and goes on where it was.
import * as api from './api.ts';
import { session } from './session.svelte.ts';
import type { EventMessage } from './types.ts';

/** What the daemon says, and "again", which is ours: the connection is back, look anew. */
export type Message = EventMessage | { type: 'again' };

type Listener = (message: Message) => void;

/** The id of the run that a message is about. */
export function runIdOf(message: Message): string | undefined {
  if (!('run' in message)) return undefined;
  return typeof message.run === 'object' ? message.run.id : message.run;
}

const FIRST_WAIT = 400; // milliseconds; doubles up to LONGEST_WAIT
const LONGEST_WAIT = 5000;

class Events {
  status: 'connecting' | 'live' | 'away' = $state('connecting');
  private socket: WebSocket | null = null;
  private sequence: number | null = null;
  private boot = ''; // which daemon gave that number
  private wait = FIRST_WAIT;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private wasLive = false;
  private readonly listeners = new Set<Listener>();
  private follows: object | null = null;

  /** Hears every message until the returned function is called. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Asks for the log or metrics of one run too; remembered over reconnections. */
  follow(run: string | null, what: { log?: boolean; metrics?: boolean } = {}): void {
    this.follows = run === null ? { follow: null } : { follow: { run, ...what } };
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.follows));
  }

  open(): void {
    clearTimeout(this.timer);
    this.socket?.close();
    const socket = new WebSocket(api.eventsAddress(this.sequence, this.boot));
    this.socket = socket;
    socket.onopen = () => this.opened(socket);
    socket.onmessage = (event: MessageEvent<string>) => this.heard(event.data);
    socket.onclose = () => this.socket === socket && this.lost();
  }

  close(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.status = 'connecting';
  }

  private opened(socket: WebSocket): void {
    this.status = 'live';
    this.wait = FIRST_WAIT;
    if (this.follows) socket.send(JSON.stringify(this.follows));
    if (this.wasLive) this.tell({ type: 'again' });
    this.wasLive = true;
  }

  private heard(text: string): void {
    const message = JSON.parse(text) as EventMessage;
    if (message.type === 'hello') this.boot = message.boot;
    if ('sequence' in message) this.sequence = message.sequence;
    this.tell(message);
  }

  private tell(message: Message): void {
    for (const listener of [...this.listeners]) listener(message);
  }

  /** A refused socket gives no reason, so a plain question is asked: its answer tells "signed out" from "away". */
  private lost(): void {
    this.socket = null;
    this.status = 'away';
    this.timer = setTimeout(() => void this.retry(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  private async retry(): Promise<void> {
    try {
      await api.system();
      this.open();
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      if (session.signedIn) this.lost();
    }
  }
}

export const events = new Events();
