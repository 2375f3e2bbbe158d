MODELS = {}


def register(name):
    def decorate(cls):
        MODELS[name] = cls
        return cls

    return decorate


def build(name, config):
    return MODELS[name](config)


def names():
    return sorted(MODELS)
