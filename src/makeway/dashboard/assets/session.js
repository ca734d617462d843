// Who reads. A code of one use comes in the address and becomes a session, which is kept for this tab
// and shown in a header. A new tab asks those that are open; nothing is kept on the disk.

const NAME = "makeway-session";
const tabs = new BroadcastChannel(NAME);

export class SignedOut extends Error {}

const kept = () => sessionStorage.getItem(NAME) || "";

export function keep(session) {
  if (session) sessionStorage.setItem(NAME, session);
}

export function forget() {
  sessionStorage.removeItem(NAME);
}

tabs.addEventListener("message", (event) => {
  if (event.data === "ask" && kept()) tabs.postMessage({ session: kept() });
  if (event.data === "over") leave();
});

// What this tab shows and reads goes with it.
function leave() {
  forget();
  location.reload();
}

// In all tabs, and at the server, which knows the session no longer.
export async function signOut() {
  await ask("/api/session", { method: "DELETE" }).catch((error) => {
    if (!(error instanceof SignedOut)) throw error;
  });
  tabs.postMessage("over");
  leave();
}

function askOtherTabs() {
  return new Promise((resolve) => {
    const answered = (event) => {
      if (event.data.session) resolve(event.data.session);
    };
    tabs.addEventListener("message", answered);
    tabs.postMessage("ask");
    setTimeout(() => {
      tabs.removeEventListener("message", answered);
      resolve("");
    }, 150);
  });
}

export async function signIn(code) {
  const answer = await fetch("/api/session", { method: "POST", headers: { "Makeway-Code": code } });
  if (!answer.ok) throw new SignedOut((await answer.json()).message);
  keep((await answer.json()).session);
}

// The code in an address, or in what somebody pasted; empty if there is none.
export function codeIn(text) {
  const found = /(?:#|^)([-\w]{40,60})\s*$/.exec(text);
  return found ? found[1] : "";
}

export async function begin() {
  const code = codeIn(location.hash);
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    await signIn(code);
  }
  if (!kept()) keep(await askOtherTabs());
  if (!kept()) throw new SignedOut("");
}

export async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { "Makeway-Session": kept(), ...options.headers } });
  if (answer.status === 401) {
    forget();
    throw new SignedOut((await answer.json()).message);
  }
  if (!answer.ok)
    throw new Error((await answer.json().catch(() => ({}))).message || `the server answered ${answer.status}`);
  return answer;
}

export async function askJson(path) {
  return (await ask(path)).json();
}

export async function post(path, body) {
  return ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}
