// The socket of a live view: says what is wanted, says what has arrived, comes back by itself.
import * as api from '../lib/api.ts';
import { session } from '../lib/session.svelte.ts';
import type { Hud, LiveHud, LiveState, MatchMessage } from '../lib/types.ts';
import { readFrame, type Frame } from './frame.ts';
import { isCondition, type Condition } from './connection_states.ts';

export interface ViewerRequest {
  fps: number;
  side: number; // pixels
  slots: number[] | null; // null: all that there are
}

const FIRST_WAIT = 500; // milliseconds; doubles up to LONGEST_WAIT
const LONGEST_WAIT = 5000;
const FINAL = new Set([1008, 4404]); // codes after which asking again is of no use
const RATE_WINDOW = 3000; // milliseconds over which pictures a second are counted

/** `show` gets each frame in the order of arrival and may take its time: the next is asked for when it is done. */
export class Feed {
  condition: Condition = $state('connecting');
  why = $state('');
  role = $state('');
  hud: Hud | null = $state.raw(null);
  garbage = $state(0); // messages that were no pictures
  rate = $state(0); // pictures a second that were shown
  private socket: WebSocket | null = null;
  private wish: ViewerRequest = { fps: 15, side: 320, slots: null };
  private isIdle = false; // nobody looks: paused, or the tab is hidden
  private wait = FIRST_WAIT;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private shown: number[] = []; // when, in milliseconds

  constructor(
    private readonly url: () => string,
    private readonly show: (frame: Frame) => Promise<void> | void,
    private readonly greeting: () => object | null = () => null, // said first, wherever the server wants it
    private readonly hear: (message: MatchMessage) => void = () => undefined,
  ) {}

  open(): () => void {
    this.connect();
    const ticking = setInterval(() => this.count(), 1000);
    return () => {
      clearInterval(ticking);
      clearTimeout(this.timer);
      this.drop();
    };
  }

  want(wish: ViewerRequest): void {
    this.wish = wish;
    this.tellWish();
  }

  /** Wants nothing while nobody looks: then nothing is drawn for us either. */
  rest(isIdle: boolean): void {
    if (isIdle === this.isIdle) return;
    this.isIdle = isIdle;
    this.tellWish();
  }

  say(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  again(): void {
    clearTimeout(this.timer);
    this.drop();
    this.connect();
  }

  private connect(): void {
    const socket = new WebSocket(this.url());
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    socket.onopen = () => {
      this.wait = FIRST_WAIT;
      const greeting = this.greeting();
      if (greeting) this.say(greeting);
      this.tellWish();
    };
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (typeof event.data === 'string') this.heard(event.data);
      else void this.arrived(socket, event.data);
    };
    socket.onclose = (event) => this.socket === socket && this.lost(event);
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close(); // sooner the browser complains
    else socket?.close();
  }

  private tellWish(): void {
    const { fps, side, slots } = this.wish;
    this.say({ fps, side, slots: this.isIdle ? [] : slots });
  }

  private heard(text: string): void {
    const message = JSON.parse(text) as LiveState | LiveHud | MatchMessage;
    if ('state' in message) {
      if (isCondition(message.state)) this.condition = message.state; // not a state that only a newer daemon knows
      [this.why, this.role] = [message.reason, message.role];
    } else if ('hud' in message) this.hud = message.hud;
    else this.hear(message);
  }

  private async arrived(socket: WebSocket, data: ArrayBuffer): Promise<void> {
    const frame = readFrame(data);
    try {
      if (typeof frame === 'string') throw new Error(frame);
      await this.show(frame);
      this.shown.push(performance.now());
    } catch {
      this.garbage++; // it is not shown, and the next one is as welcome
    }
    if (socket.readyState === WebSocket.OPEN) socket.send('{"ack":1}');
  }

  private count(): void {
    const since = performance.now() - RATE_WINDOW;
    this.shown = this.shown.filter((at) => at > since);
    this.rate = this.shown.length / (RATE_WINDOW / 1000);
  }

  /** A socket that closes says little, so a plain question is asked: its answer tells "signed out" from "away". */
  private lost(event: CloseEvent): void {
    this.socket = null;
    if (FINAL.has(event.code)) {
      [this.condition, this.why] = ['refused', event.reason];
      return;
    }
    [this.condition, this.why] = ['away', event.reason || 'Connection lost; reconnecting.'];
    this.timer = setTimeout(() => void this.retry(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  private async retry(): Promise<void> {
    try {
      await api.system();
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      if (!session.signedOut) this.timer = setTimeout(() => void this.retry(), this.wait);
      return;
    }
    if (!this.socket) this.connect();
  }
}

/** Where a socket of the daemon is; the browser brings the cookie. */
export function socketAddress(path: string, query: Record<string, string> = {}): string {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}${path}${words ? `?${words}` : ''}`;
}
