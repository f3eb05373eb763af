// Browsers start no worker for a page that was opened from a folder, so that its search would be
// dead. There, and only there, what the worker would run runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...scripts) => Promise.all(scripts.map((each) => this.load(each)));
      this.load(url).then(() => {
        const first = this.waiting;
        this.waiting = null;
        first.forEach((data) => this.postMessage(data));
      });
    }

    load(url) {
      return new Promise((done, fail) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = fail;
        this.inside.document.head.append(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {}
  };
}
