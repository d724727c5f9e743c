/** The console: sign-in, the frame around the pages, and the pages. */
import { render } from 'preact';
import { useObservable } from './observable.js';
import { startRouter } from './router.js';
import { sessionState, startSession } from './session.js';
import { NoServer, SignIn } from './sign-in.js';
import { Shell } from './shell.js';
import { startView } from './stoa.js';
import { startTheme } from './theme.js';
import { startExactTimes } from './ui/time.js';
import { world, startWorld } from './live/world.js';
import { WorldContext } from './live/use-world.js';

function App() {
  const state = useObservable(sessionState);
  const current = useObservable(world);
  if (state.name === 'signed out') return <SignIn reason={state.reason} />;
  if (state.name === 'waiting') return <NoServer reason={state.reason} />;
  if (state.name === 'starting' || current === undefined) return <div class="starting" aria-busy="true" />;
  return (
    <WorldContext.Provider value={current}>
      <Shell />
    </WorldContext.Provider>
  );
}

startTheme();
startRouter();
startExactTimes();
startView();
startWorld();
const place = document.querySelector('#app');
if (place !== null) render(<App />, place);
void startSession();
