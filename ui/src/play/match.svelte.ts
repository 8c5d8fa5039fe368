// A match as the page sees it: who plays, how each round ended, and the pictures.
import { Feed, socketAddress } from '../live/feed.svelte.ts';
import type { MatchMessage, MatchPlan, MatchReady, MatchResult } from '../lib/types.ts';
import { Tiles } from '../live/tiles.svelte.ts';

const MOST_RESULTS = 500;

export class Match {
  readonly tiles = new Tiles();
  readonly feed: Feed;
  ready: MatchReady | null = $state.raw(null);
  results: MatchResult[] = $state.raw([]);
  seed = $state(0);
  pace: number; // steps a second, as it was chosen last
  epoch: number | null = $state(null); // of the newest checkpoint, where it is followed

  constructor(readonly order: MatchPlan) {
    this.seed = order.seed ?? 0;
    this.pace = order.pace ?? 10;
    this.feed = new Feed(() => socketAddress('/api/match'), (frame) => this.tiles.show(frame), () => ({ ...this.order, pace: this.pace }), (message) => this.hear(message));
  }

  label(seat: number): string {
    const player = this.ready?.seats[seat];
    if (!player) return `seat ${seat + 1}`;
    if (player.player === 'person') return `You${this.ready!.players > 1 ? ` (agent ${player.agent})` : ''}`;
    return player.player === 'random' ? 'Random' : `${player.run} · epoch ${this.order.follow ? (this.epoch ?? player.epoch) : player.epoch}`;
  }

  /** Means over the rounds that a seat has finished. */
  standing(seat: number): { rounds: number; mean: number; last: MatchResult | undefined } {
    const own = this.results.filter((one) => one.seat === seat);
    return { rounds: own.length, mean: own.reduce((sum, one) => sum + one.return, 0) / own.length, last: own.at(-1) };
  }

  private hear(message: MatchMessage): void {
    if (message.ready) {
      this.ready = message.ready;
      this.results = [];
    }
    if (message.round) this.seed = message.round.seed;
    if (message.ended) this.results = [...this.results.slice(1 - MOST_RESULTS), message.ended];
    if (message.newer) this.epoch = message.newer.epoch;
  }
}
