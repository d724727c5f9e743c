/** Who is signed in, whose records are shown, and the colours. */
import { useLoaded } from './load.js';
import { useWorld } from './live/use-world.js';
import { useObservable } from './observable.js';
import { href, navigate, route } from './router.js';
import { signOut } from './session.js';
import { nextTheme, theme } from './theme.js';
import { sentenceCase } from './ui/format.js';
import { Icon } from './ui/parts.js';

export function Account() {
  const { view } = useWorld();
  const chosen = useObservable(theme);
  return (
    <div class="account">
      {view.isOperator ? <UserChoice /> : <p class="who">{view.session.user}</p>}
      {view.canWrite ? null : <p class="muted">This token only reads.</p>}
      <div class="account-buttons">
        <button type="button" class="button quiet" onClick={nextTheme} title={`Colours: ${chosen}`}>
          <Icon name="sun" />
          <span>{sentenceCase(chosen)}</span>
        </button>
        <button type="button" class="button quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </div>
  );
}

const usersShownMax = 1_000;

/** The operator looks at everything, or at one user as that user. */
function UserChoice() {
  const { view } = useWorld();
  const { path } = useObservable(route);
  const users = useLoaded(
    (signal) => view.stoa.admin.users.list({ limit: usersShownMax, signal }),
    [view.session.token],
  );
  const names = new Set((users.value?.items ?? []).map(({ user }) => user));
  if (view.user !== undefined) names.add(view.user);
  return (
    <label class="user-choice">
      <span class="visually-hidden">User</span>
      <select
        value={view.user ?? ''}
        onChange={(event) => navigate(href(path.slice(0, 1), { user: event.currentTarget.value }))}
      >
        <option value="">All users</option>
        {[...names].toSorted().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The same on a narrow screen, which has no room for it beside the navigation. */
export function AccountBox() {
  return (
    <section class="box account-box">
      <h2>Account</h2>
      <Account />
    </section>
  );
}
