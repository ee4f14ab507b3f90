// Browsers start no worker for a page opened from disk, and the search box needs one. Here a hidden
// frame takes its place: the same script, the same messages, no server and no network.
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.postMessage = (data) => setTimeout(() => answer(data));
      inside.importScripts = () => undefined;
      this.started = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.onload = resolve;
        script.onerror = reject;
        script.src = url;
        inside.document.head.append(script);
      });
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.started.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
})();
