/** The page for people who are not signed in, and the one for those whose server does not answer. */
import { useState } from 'preact/hooks';
import { signInWithToken } from './session.js';
import { Copyable, Icon } from './ui/parts.js';

export function SignIn({ reason }: { reason: string | null }) {
  const [token, setToken] = useState('');
  const [isTrying, setTrying] = useState(false);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    setTrying(true);
    await signInWithToken(token.trim());
    setTrying(false);
  };
  return (
    <main class="sign-in">
      <div class="sign-in-card">
        <img src="/console/assets/icon.svg" alt="" width="40" height="40" />
        <h1>Stoa</h1>
        <p>Open a one-time link. This command prints one, and so does the start of the server:</p>
        <Copyable text="stoa console" label="Copy the command" />
        <form onSubmit={(event) => void enter(event)}>
          <label class="entry">
            <span>Or paste a token</span>
            <input
              type="password"
              name="token"
              autocomplete="off"
              spellcheck={false}
              required
              value={token}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          </label>
          <button type="submit" class="button primary" disabled={isTrying || token.trim() === ''}>
            Sign in
          </button>
        </form>
        <div class="reason" role="alert">
          {reason === null ? null : (
            <>
              <Icon name="alert" /> {reason}
            </>
          )}
        </div>
      </div>
    </main>
  );
}

/** Nothing to do for a person: the console goes on by itself when the server is back. */
export function NoServer({ reason }: { reason: string }) {
  return (
    <main class="sign-in">
      <div class="sign-in-card" role="status">
        <img src="/console/assets/icon.svg" alt="" width="40" height="40" />
        <h1>The server does not answer</h1>
        <p>You stay signed in. The console tries again every 2 seconds.</p>
        <p class="muted">{reason}</p>
      </div>
    </main>
  );
}
