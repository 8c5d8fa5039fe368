// Whether we may ask, and whether anybody answers. Every answer of the daemon is heard here.
import { AWAY, onStatus } from './http.ts';

class Session {
  signedOut = $state(false);
  signedIn = $state(false); // neither is true before the first answer

  constructor() {
    onStatus((status) => {
      if (status === AWAY) return;
      if (status === 401) this.leave();
      else if (!this.signedOut) this.signedIn = true;
    });
  }

  enter(): void {
    [this.signedIn, this.signedOut] = [true, false];
  }

  leave(): void {
    [this.signedIn, this.signedOut] = [false, true];
  }
}

export const session = new Session();
