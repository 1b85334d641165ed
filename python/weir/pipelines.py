class Node: pass
class Pipeline: pass
def pipeline(): pass
